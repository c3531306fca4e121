// Package exec runs one [wire.JobRequest] as a program and makes a [wire.JobResult] of what it leaves. It knows no network.
//
// The walk of an attempt: check the request, make the work directory, write the files into it, link the program into it, run
// it, put what is new into an archive, delete the directory. A [Kind] is a program that is not linked into it. The directories:
//
//	ExeDir/EXEC.exe       the programs, which people put there
//	CacheDir/NAME         files that requests name
//	JobsDir/JOB           where the program of a job runs, locked while its attempt lives
//	JobsDir/.idle-NAME    the same, empty, for the next attempt
//	JobsDir/.exe-NAME     copies of programs, of one runner, locked while it lives
//	JobsDir/.part-NAME    output and archives that are too large for memory
//	JobsDir/batchfleet-scratch    checkpoints
//
// What a program was does not matter to its result: a request that cannot be run and a program that fails both end in a
// result whose status is FAILED. An error means that there is no result: this machine could not run it
// ([jobs.ErrUnavailable]), or it was told to stop.
package exec
