module github.com/neverhang/neverhang/benchmarks

go 1.26.6

require (
	github.com/aws/aws-sdk-go-v2 v1.48.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/neverhang/neverhang v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.25.0
	golang.org/x/time v0.16.0
)

require (
	github.com/aws/smithy-go v1.28.9 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/neverhang/neverhang => ../
