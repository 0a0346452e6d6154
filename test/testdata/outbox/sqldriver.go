package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"strconv"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// main calls a function of the page's program: sqldriver FUNCTION ORDER.
func main() {
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable", os.Getenv("DB_USER"),
		os.Getenv("DB_HOST"), os.Getenv("DB_PORT"), os.Getenv("DB_NAME")))
	if err != nil {
		log.Fatal(err)
	}
	order, _ := strconv.Atoi(os.Args[2])
	do := map[string]func(context.Context, *sql.DB, int) error{"place": place, "extend": extend, "pay": pay}[os.Args[1]]
	if err := do(context.Background(), db, order); err != nil {
		log.Fatal(err)
	}
}
