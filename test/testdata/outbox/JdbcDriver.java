import java.sql.DriverManager;

/** Calls a method of the page's program: java JdbcDriver METHOD ORDER. */
public class JdbcDriver {
    public static void main(String[] args) throws Exception {
        String kind = System.getenv("DB_KIND").equals("mysql") ? "mariadb" : "postgresql";
        String url = "jdbc:" + kind + "://" + System.getenv("DB_HOST") + ":" + System.getenv("DB_PORT") + "/"
            + System.getenv("DB_NAME");
        try (var db = DriverManager.getConnection(url, System.getenv("DB_USER"), System.getenv("DB_PASSWORD"))) {
            db.setAutoCommit(false);
            Orders.class.getMethod(args[0], int.class).invoke(new Orders(db), Integer.valueOf(args[1]));
        }
    }
}
