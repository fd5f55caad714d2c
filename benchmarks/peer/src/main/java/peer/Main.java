package peer;

import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;

/**
 * Runs the leaderboard and serves its boards until SIGTERM.
 *
 * <p>Settings are environment variables: BOOTSTRAP_SERVERS, PORT, STATE_DIR and APPLICATION_ID.
 */
final class Main {
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(30);

    private Main() {}

    public static void main(String[] arguments) {
        var streams = new KafkaStreams(Leaderboard.topology(), settings());
        var server = new Boards(streams).start("127.0.0.1", Integer.parseInt(setting("PORT")));
        // Without LEAVE_GROUP the next start would wait until the group's session timeout has passed.
        var close = CloseOptions.timeout(CLOSE_WITHIN).withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            server.stop();
            streams.close(close);
        }));
        streams.start();
    }

    /** Returns the settings; all others are the defaults of Kafka Streams. */
    private static Properties settings() {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, setting("APPLICATION_ID"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, setting("BOOTSTRAP_SERVERS"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, setting("STATE_DIR"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        // An inner join drops an event whose player comes later. A task takes the record with the earliest timestamp
        // of its partitions, and the load sends all players before the first event. With 0, the default, the task waits
        // for a partition of which the broker has more: so all players that are there come before all events, whichever
        // is fetched first. More than 0 would hold each event back until a newer player comes; -1 would not wait at all.
        settings.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, 0L);
        return settings;
    }

    private static String setting(String name) {
        var value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not set");
        }
        return value;
    }
}
