import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.support.TransactionTemplate;

/** Calls a method of the page's program: java SpringDriver METHOD ORDER. */
public class SpringDriver {
    public static void main(String[] args) throws Exception {
        String kind = System.getenv("DB_KIND").equals("mysql") ? "mariadb" : "postgresql";
        var source = new DriverManagerDataSource("jdbc:" + kind + "://" + System.getenv("DB_HOST") + ":"
            + System.getenv("DB_PORT") + "/" + System.getenv("DB_NAME"), System.getenv("DB_USER"),
            System.getenv("DB_PASSWORD"));
        var orders = new SpringOrders(new JdbcTemplate(source),
            new TransactionTemplate(new DataSourceTransactionManager(source)));
        SpringOrders.class.getMethod(args[0], int.class).invoke(orders, Integer.valueOf(args[1]));
    }
}
