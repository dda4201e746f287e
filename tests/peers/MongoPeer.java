import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import java.util.List;

/**
 * A server that speaks MongoDB's protocol and keeps its data in one H2 file, for tests of correctness where there is no
 * mongod. It is not MongoDB: it has no secondary indexes and no journal, and is never measured.
 *
 * Takes the file as its argument, listens on a free loopback port, and prints the URL.
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

    public static void main(String[] arguments) {
        MongoServer server = new MongoServer(new H2Backend(arguments[0]).version(new Version()));
        System.out.println(server.bindAndGetConnectionString());
    }
}
