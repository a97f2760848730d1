module github.com/pawl-run/pawl

go 1.26.0
