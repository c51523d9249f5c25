// SPDX-License-Identifier: Apache-2.0
// SQL in an H2 database in memory: tables, indices, joins, groups, transactions, errors.
// Prints: c33n18 c22n16 c12n15 c03n19 3

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public class H2Database {
    public static void main(String[] args) throws Exception {
        // H2 caches values by their hash, timestamps too: what it finds in the cache depends on the clock.
        System.setProperty("h2.objectCache", "false");
        Properties properties = new Properties();
        // Without a name there is no hash of the password, for which the lab has no provider.
        properties.setProperty("user", "");
        properties.setProperty("password", "");
        try (Connection connection = new org.h2.Driver().connect("jdbc:h2:mem:test", properties)) {
            Statement statement = connection.createStatement();
            statement.execute("create table person(id int primary key, name varchar(20), city int)");
            statement.execute("create table city(id int primary key, name varchar(20))");
            statement.execute("create index by_city on person(city)");
            PreparedStatement insert = connection.prepareStatement("insert into person values (?, ?, ?)");
            for (int i = 0; i < 30; i++) {
                insert.setInt(1, i);
                insert.setString(2, "n" + (i * 7919) % 31);
                insert.setInt(3, i % 4);
                insert.executeUpdate();
            }
            for (int i = 0; i < 4; i++) {
                statement.executeUpdate("insert into city values (" + i + ", 'c" + i + "')");
            }
            connection.setAutoCommit(false);
            statement.executeUpdate("delete from person where id < 5");
            connection.rollback();
            int failed = 0;
            for (String bad : new String[] {"selec 1", "select x from person", "insert into city values (1, 'c')"}) {
                try {
                    statement.execute(bad);
                } catch (SQLException e) {
                    failed++;
                }
            }
            StringBuilder text = new StringBuilder();
            try (ResultSet result = statement.executeQuery("select c.name, count(*), max(p.name) from person p"
                    + " join city c on c.id = p.city where p.name like 'n1%' group by c.name order by 1 desc")) {
                while (result.next()) {
                    text.append(result.getString(1)).append(result.getInt(2)).append(result.getString(3)).append(' ');
                }
            }
            System.out.println(text.toString() + failed);
        }
    }
}
