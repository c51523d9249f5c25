// SPDX-License-Identifier: Apache-2.0
// JSON to objects and back with Gson: reflection, generic types, a tree.
// Prints: 8993 true true 3 {a=[1, 2], b=[]}

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import com.google.gson.JsonSyntaxException;
import com.google.gson.reflect.TypeToken;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

public class GsonTree {
    enum Colour {
        RED, GREEN
    }

    static class Item {
        String name;
        int count;
        double[] prices;
        Colour colour;
        List<Item> parts = new ArrayList<>();
        Map<String, Integer> sizes = new TreeMap<>();
    }

    static Item make(int depth) {
        Item item = new Item();
        item.name = "item \"" + depth + "\" \u00e9";
        item.count = depth * 31;
        item.prices = new double[] {depth / 4.0, -depth};
        item.colour = Colour.values()[depth % 2];
        item.sizes.put("w" + depth, depth);
        for (int i = 0; i < depth; i++) {
            item.parts.add(make(depth - 1 - i));
        }
        return item;
    }

    public static void main(String[] args) {
        Gson gson = new GsonBuilder().setPrettyPrinting().create();
        String text = gson.toJson(make(5));
        Item item = gson.fromJson(text, Item.class);
        JsonElement tree = JsonParser.parseString(text);
        int failed = 0;
        for (String bad : new String[] {"{", "[1,", "{\"count\":\"x\"}"}) {
            try {
                gson.fromJson(bad, Item.class);
            } catch (JsonSyntaxException e) {
                failed++;
            }
        }
        Map<String, List<Integer>> map = gson.fromJson("{\"a\":[1,2],\"b\":[]}",
                new TypeToken<TreeMap<String, List<Integer>>>() { }.getType());
        System.out.println(text.length() + " " + gson.toJson(item).equals(text) + " "
                + tree.equals(JsonParser.parseString(gson.toJson(tree))) + " " + failed + " " + map);
    }
}
