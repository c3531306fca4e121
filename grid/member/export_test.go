package member

// UsageOf measures the CPU of another root file system.
var UsageOf = newUsage
