package io.github.wakecall;

import java.util.List;

/**
 * A page of a list.
 *
 * @param <T> of its items
 */
public final class Page<T> {
    /** What the page has. */
    public final List<T> items;
    /** The cursor of the next page; "" at the end. */
    public final String next;

    Page(List<T> items, String next) {
        this.items = items;
        this.next = next;
    }
}
