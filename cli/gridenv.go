package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/cli/settings"
)

// GridWorkerEnv are the settings of a worker of the grid.
type GridWorkerEnv struct {
	OwnEnv
	MaxPar int     `envconfig:"WORKER_MAX_PAR" default:"4" range:"1,10000" doc:"how many jobs a worker of the grid runs at once"`
	CPUCap Decimal `envconfig:"WORKER_CPU_CAP" default:"0.75" doc:"while more of the CPU is used, a job that ends makes no room for another; what is less than 0.10 or more than 0.95 counts as that"`
}

// GridClientEnv are the settings of a client of the grid.
type GridClientEnv struct {
	Desired int `envconfig:"CLIENT_DESIRED_PAR" default:"4" range:"1,10000" doc:"how many jobs of batchfleet grid client may run at once; its argument wins"`
}

// Check returns what is wrong with the values.
func (e *GridWorkerEnv) Check() []error { return append(settings.Limits(e), settings.LogLevel()) }

// Check returns what is wrong with the values.
func (e *GridClientEnv) Check() []error { return append(settings.Limits(e), settings.LogLevel()) }

// cap is the part of the CPU from which on no room is made.
func (e *GridWorkerEnv) cap() float64 { return min(max(float64(e.CPUCap), 0.10), 0.95) }

// Decimal is a number that is written with digits and a point, wherever the machine is.
type Decimal float64

// Decode implements [envconfig.Decoder].
func (d *Decimal) Decode(value string) error {
	whole, part, _ := strings.Cut(value, ".")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || whole == "" || strings.Trim(whole+part, "0123456789") != "" {
		return errors.New("want a number with a point, such as 0.75")
	}
	*d = Decimal(n)
	return nil
}
