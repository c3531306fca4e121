package schedules

var (
	NextRun   = nextRun
	Due       = due
	CheckCron = checkCron
)
