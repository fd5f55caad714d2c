package peer;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonValue;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The three best scores of each product, with the names of player and product.
 *
 * <pre>
 * score-events ▸ by player ▸ (repartition) ▸ join players ▸ join products ▸ by product ▸ (repartition) ▸ leader-boards
 * </pre>
 *
 * <p>The repartition topics get the partitions of the topics that they come from and are joined with.
 */
final class Leaderboard {
    static final String STORE = "leader-boards";
    static final int PLACES = 3;

    private Leaderboard() {}

    record Score(
            double score, @JsonProperty("product_id") long productId, @JsonProperty("player_id") long playerId) {}

    record Player(long id, String name) {}

    record Product(long id, String name) {}

    record PlayersScore(Score score, Player player) {}

    /** What a board shows, with the names of the fields in answers. */
    record Entry(long playerId, long productId, String playerName, String gameName, double score) {
        static Entry of(PlayersScore scored, Product product) {
            var score = scored.score();
            return new Entry(
                    score.playerId(), score.productId(), scored.player().name(), product.name(), score.score());
        }
    }

    /** The best entries, best first; of equal scores the one that came first. */
    record Board(@JsonValue List<Entry> entries) {
        @JsonCreator(mode = JsonCreator.Mode.DELEGATING)
        Board {}

        Board with(Entry entry) {
            var place = entries.size();
            while (place > 0 && entries.get(place - 1).score() < entry.score()) {
                place--;
            }
            if (place == PLACES) {
                return this;
            }
            var best = new ArrayList<>(entries);
            best.add(place, entry);
            return new Board(best.subList(0, Math.min(best.size(), PLACES)));
        }
    }

    static Topology topology() {
        var builder = new StreamsBuilder();
        var ids = Serdes.String();
        var scores = Json.serde(Score.class);
        var players = builder.table(
                "players", Consumed.with(ids, Json.serde(Player.class)), Materialized.as("players-by-id"));
        var products = builder.globalTable(
                "products", Consumed.with(ids, Json.serde(Product.class)), Materialized.as("products-by-id"));
        builder.stream("score-events", Consumed.with(Serdes.ByteArray(), scores))
                .selectKey((none, score) -> Long.toString(score.playerId()))
                .join(players, PlayersScore::new, Joined.with(ids, scores, Json.serde(Player.class), "by-player"))
                .join(products, (playerId, scored) -> Long.toString(scored.score().productId()), Entry::of)
                .groupBy((playerId, entry) -> Long.toString(entry.productId()), Grouped.with(ids, Json.serde(Entry.class)))
                .aggregate(
                        () -> new Board(List.of()),
                        (productId, entry, board) -> board.with(entry),
                        Materialized.<String, Board, KeyValueStore<Bytes, byte[]>>as(STORE)
                                .withKeySerde(ids)
                                .withValueSerde(Json.serde(Board.class)));
        return builder.build();
    }
}
