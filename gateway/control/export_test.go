package control

// What tests of the reaper need, whose first round comes one Period after Run began.
var (
	Rounds = (*Control).rounds
	Pause  = (*Control).pause
)

// LargeOfOne is how many large bodies a worker may have on their way.
const LargeOfOne = largeOfOne
