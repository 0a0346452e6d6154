module github.com/wakecall/wakecall/client

go 1.24
