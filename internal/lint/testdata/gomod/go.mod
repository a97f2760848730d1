module github.com/pawl-run/pawl

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/pkg/errors v0.9.1
	github.com/kr/text v0.2.0 // indirect
)

replace github.com/google/uuid => ../uuid
