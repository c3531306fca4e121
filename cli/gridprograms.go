package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// programs counts the programs of --exe-dir that can run. Those that cannot are a [warning] if there are others or there is a kinds file;
// without either it is an error that there is none.
func (f *gridWorkerFlags) programs(besideKinds bool) (n int, err error) {
	entries, err := os.ReadDir(f.exeDir)
	if err != nil {
		if besideKinds && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return 0, err
	}
	var unfit []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".exe")
		if !ok {
			continue
		}
		info, err := os.Stat(filepath.Join(f.exeDir, e.Name()))
		switch {
		case err != nil:
		case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
			err = fmt.Errorf("%s is no file that may be executed", e.Name())
		default:
			if err = wire.CheckExecName(name); err == nil {
				n++
			}
		}
		unfit = append(unfit, err)
	}
	if n == 0 && !besideKinds {
		return 0, errors.Join(append(unfit, errors.New("it has no program EXEC.exe"))...)
	}
	if err := errors.Join(unfit...); err != nil {
		return n, warning{err}
	}
	return n, nil
}

// warnOfPrograms logs that no job can run, or not those of some programs. A program is looked for at each job, so it may still come.
func (f *gridWorkerFlags) warnOfPrograms(ctx context.Context, besideKinds bool, log *slog.Logger) {
	n, err := f.programs(besideKinds)
	if err == nil {
		return
	}
	text := "jobs for programs will be rejected"
	if n > 0 {
		text = "jobs for some programs will be rejected"
	}
	log.WarnContext(ctx, text, "exe_dir", f.exeDir, "err", err, "do", "put programs there, as EXEC.exe, and let them be executed (chmod +x), or give another --exe-dir")
}
