package peer;

import io.javalin.Javalin;
import io.javalin.http.ContentType;
import io.javalin.http.Context;
import io.javalin.http.HttpStatus;
import io.javalin.http.NotFoundResponse;
import java.util.HashMap;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** Serves the boards of this instance; 503 while the store cannot be asked. */
final class Boards {
    private final KafkaStreams streams;

    Boards(KafkaStreams streams) {
        this.streams = streams;
    }

    Javalin start(String host, int port) {
        return Javalin.create(config -> {
                    config.startup.showJavalinBanner = false;
                    config.routes.get("/leaderboard", this::all);
                    config.routes.get("/leaderboard/{key}", this::one);
                    config.routes.exception(InvalidStateStoreException.class, (error, answer) -> answer
                            .status(HttpStatus.SERVICE_UNAVAILABLE)
                            .result(String.valueOf(error.getMessage())));
                })
                .start(host, port);
    }

    private void all(Context request) {
        var boards = new HashMap<String, Leaderboard.Board>();
        try (var found = store().all()) {
            found.forEachRemaining(row -> boards.put(row.key, row.value));
        }
        answer(request, boards);
    }

    private void one(Context request) {
        var board = store().get(request.pathParam("key"));
        if (board == null) {
            throw new NotFoundResponse("no board of this product");
        }
        answer(request, board);
    }

    private static void answer(Context request, Object body) {
        request.contentType(ContentType.APPLICATION_JSON).result(Json.bytes(body));
    }

    private ReadOnlyKeyValueStore<String, Leaderboard.Board> store() {
        return streams.store(
                StoreQueryParameters.fromNameAndType(Leaderboard.STORE, QueryableStoreTypes.keyValueStore()));
    }
}
