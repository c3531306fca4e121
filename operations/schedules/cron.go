package schedules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/batchfleet/batchfleet/jobapi"
)

// checkCron returns what is wrong with when a schedule comes.
func checkCron(cron string) error {
	if !strings.HasPrefix(cron, "@") && len(strings.Fields(cron)) != 5 {
		return errors.New("want five fields: minute hour day month weekday, such as 30 6 * * mon-fri, or @hourly, @daily, @weekly, @monthly, @yearly")
	}
	switch cron {
	case "@5minutes", "@10minutes", "@15minutes", "@30minutes", "@always", "@everysecond", "@annually": // words of the library alone
		return errors.New("want five fields, or @hourly, @daily, @weekly, @monthly, @yearly")
	}
	if !gronx.IsValid(cron) {
		return errors.New("minute hour day month weekday: one of them is out of range, or has a form that is not known")
	}
	if _, err := nextRun(cron, time.UTC, time.Now()); err != nil {
		return err
	}
	return nil
}

// nextRun returns when a schedule comes next after a time. A time of the day that the zone leaves out, as when summer
// time begins, does not come on that day; one that the zone has twice comes once. What comes each hour or more often does
// so in all hours.
func nextRun(cron string, zone *time.Location, after time.Time) (time.Time, error) {
	local := after.In(zone)
	if fields := strings.Fields(cron); len(fields) == 5 && strings.HasPrefix(fields[1], "*") || cron == "@hourly" {
		_, offset := local.Zone() // the clock of the zone leaps, and such a schedule does not
		local = after.In(time.FixedZone("", offset))
	}
	next, err := gronx.NextTickAfter(cron, local, false)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q never comes", cron)
	}
	return next.UTC(), nil
}

// maxMissed is how many missed runs are looked for at most.
const maxMissed = 100

// maxLate is how late a run may be that is made up for.
const maxLate = 31 * 24 * time.Hour

// due returns which runs of a schedule are to be made now, the oldest first, and when it comes next: of those from
// first on, which is not after now.
func due(cron string, zone *time.Location, catchUp string, first, now time.Time) (runs []time.Time, next time.Time, err error) {
	if oldest := now.Add(-maxLate); first.Before(oldest) {
		if first, err = nextRun(cron, zone, oldest); err != nil || first.After(now) {
			return nil, first, err
		}
	}
	for next = first; !next.After(now); {
		runs = append(runs, next)
		if len(runs) > maxMissed {
			runs = runs[1:]
		}
		if next, err = nextRun(cron, zone, next); err != nil {
			return nil, next, err
		}
	}
	switch newest := runs[len(runs)-1]; {
	case catchUp == jobapi.CatchUpAll:
	case catchUp == jobapi.CatchUpNone && now.Sub(newest) > onTime:
		runs = nil
	default:
		runs = runs[len(runs)-1:]
	}
	return runs, next, nil
}

// onTime is how late a run may be that counts as not missed.
const onTime = time.Minute
