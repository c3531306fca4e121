package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// chart is a small picture of jobs that came and ended: bars of those that have ended, and a line of those that came.
// It also is a table, for whoever does not see the picture.
type chart struct {
	Title         string
	Width, Height int
	Bars          []bar
	Line          string // points of the line
	Points        []chartPoint
	Most          int64  // of one interval
	Every         string // the interval, in words
	In, Out       string // per second, over all of it
	Failed        int64
}

type bar struct {
	X, Y, W, H int
	Class      string
}

type chartPoint struct {
	jobapi.Point
	Ended int64
}

const (
	chartWidth  = 600
	chartHeight = 100
)

func newChart(title string, every time.Duration, points []jobapi.Point) chart {
	c := chart{Title: title, Width: chartWidth, Height: chartHeight, Every: about(every), Most: 1}
	var in, out int64
	for _, p := range points {
		ended := p.Succeeded + p.Failed + p.Canceled
		c.Points = append(c.Points, chartPoint{p, ended})
		c.Most = max(c.Most, p.In, ended)
		in, out, c.Failed = in+p.In, out+ended, c.Failed+p.Failed
	}
	if len(points) > 0 {
		seconds := every.Seconds() * float64(len(points))
		c.In, c.Out = rate(float64(in)/seconds), rate(float64(out)/seconds)
	}
	var line []string
	for i, p := range c.Points {
		x, next := i*chartWidth/len(c.Points), (i+1)*chartWidth/len(c.Points)
		y := chartHeight
		for _, part := range []struct {
			n     int64
			class string
		}{{p.Succeeded, "ok"}, {p.Failed, "bad"}, {p.Canceled, "off"}} {
			h := c.high(part.n)
			if h == 0 {
				continue
			}
			y -= h
			c.Bars = append(c.Bars, bar{x + 1, max(0, y), max(1, next-x-2), h, part.class})
		}
		line = append(line, fmt.Sprintf("%d,%d", (x+next)/2, chartHeight-c.high(p.In)))
	}
	c.Line = strings.Join(line, " ")
	return c
}

// high returns how high a number is in the picture; what is there at all is seen.
func (c *chart) high(n int64) int {
	if n <= 0 {
		return 0
	}
	return max(1, int(n*(chartHeight-4)/c.Most))
}

// rate returns a number per second, or per minute or hour where that is easier to read.
func rate(perSecond float64) string {
	for _, u := range []struct {
		in   float64
		unit string
	}{{1, "s"}, {60, "min"}, {3600, "h"}} {
		if n := perSecond * u.in; n >= 1 || u.unit == "h" {
			digits := 1
			if n >= 100 || n == 0 {
				digits = 0
			}
			return strconv.FormatFloat(n, 'f', digits, 64) + "/" + u.unit
		}
	}
	return ""
}
