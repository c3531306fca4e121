package control

import "context"

// What tests of the reaper need, whose first round comes one Period after Run began.
var (
	Rounds = (*Control).rounds
	Pause  = (*Control).pause
)

// LargeOfOne is how many large bodies a worker may have on their way.
const LargeOfOne = largeOfOne

// TakeRoom takes the room for all large bodies, until it is given back.
func TakeRoom(ctx context.Context, c *Control) (giveBack func(), err error) {
	var places []func()
	for range largeBodies {
		release, err := c.large.take(ctx, string(rune('a'+len(places))))
		if err != nil {
			return nil, err
		}
		places = append(places, release)
	}
	return func() {
		for _, release := range places {
			release()
		}
	}, nil
}
