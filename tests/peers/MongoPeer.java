import de.bwaldvogel.mongo.MongoBackend;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.Channel;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A server that speaks MongoDB's protocol and keeps its data in one H2 file, for tests of correctness where there is no
 * mongod. It is not MongoDB: it has no secondary indexes and no journal, and is never measured.
 *
 * Takes the file as its argument, listens on a free loopback port, and prints the URL. With a second argument, `as-mongodb`, it
 * answers what it is asked of itself as MongoDB does, so that what depends on such answers can be tried; without it, it says what
 * it is.
 */
public final class MongoPeer {
    /** The oldest version that current drivers talk to. */
    private static final class Version implements MongoVersion {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(4, 4, 0);
        }

        @Override
        public int getWireVersion() {
            return 9;
        }
    }

    /** Adds to the answers about the server itself what MongoDB's have, by its manual. */
    private static final class AsMongo extends H2Backend {
        /** Writes that asked for the journal: MongoDB flushes it for each of them, and counts that. */
        private final AtomicLong flushes = new AtomicLong();
        /** By database and collection, what it was made to be compressed with. */
        private final Map<String, String> compressors = new ConcurrentHashMap<>();

        AsMongo(String file) {
            super(file);
        }

        @Override
        public Document handleCommand(Channel channel, String database, String command, Document query) {
            if (query.get("writeConcern") instanceof Document concern && Boolean.TRUE.equals(concern.get("j"))) {
                flushes.incrementAndGet();
            }
            if (command.equals("create")) {
                compressors.put(database + "." + query.get("create"), compressorOf(query));
            }
            Document answer = super.handleCommand(channel, database, command, query);
            switch (command) {
                case "buildInfo" -> answer.append("gitVersion", "0".repeat(40)).append("storageEngines", List.of("wiredTiger"));
                case "serverStatus" -> answer
                    .append("storageEngine", new Document("name", "wiredTiger").append("persistent", true))
                    .append("wiredTiger", new Document("log", new Document("log sync operations", flushes.get())));
                case "collStats" -> {
                    String made = compressors.getOrDefault(database + "." + query.get("collStats"), "snappy");
                    answer.append("wiredTiger", new Document("creationString", "block_compressor=" + made + ",checksum=on"));
                }
                default -> { }
            }
            return answer;
        }

        private static String compressorOf(Document create) {
            if (create.get("storageEngine") instanceof Document engine
                    && engine.get("wiredTiger") instanceof Document settings) {
                return settings.get("configString").toString().replace("block_compressor=", "");
            }
            return "snappy";
        }
    }

    public static void main(String[] arguments) {
        boolean asMongo = arguments.length > 1 && arguments[1].equals("as-mongodb");
        MongoBackend backend = asMongo ? new AsMongo(arguments[0]) : new H2Backend(arguments[0]);
        System.out.println(new MongoServer(backend.version(new Version())).bindAndGetConnectionString());
    }
}
