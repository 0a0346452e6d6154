package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// main calls a function of the page's program: gormdriver FUNCTION ORDER.
func main() {
	db, err := gorm.Open(mysql.Open(fmt.Sprintf("%s:%s@tcp(%s:%s)/%s", os.Getenv("DB_USER"), os.Getenv("DB_PASSWORD"),
		os.Getenv("DB_HOST"), os.Getenv("DB_PORT"), os.Getenv("DB_NAME"))))
	if err != nil {
		log.Fatal(err)
	}
	order, _ := strconv.Atoi(os.Args[2])
	do := map[string]func(context.Context, *gorm.DB, int) error{"place": place, "extend": extend,
		"pay": pay}[os.Args[1]]
	if err := do(context.Background(), db, order); err != nil {
		log.Fatal(err)
	}
}
