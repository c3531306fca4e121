package s3

import (
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

func TestMain(m *testing.M) {
	testrun.Parallel(8) // those that run in parallel mostly wait
	m.Run()
}
