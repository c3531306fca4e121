package zpe

// CODATA 2018, with the digits of Quantum ESPRESSO 6.7 where that matters.
const (
	bohr      = 0.529177210903      // Å
	rydberg   = 2.1798723611035e-18 // J
	amu       = 1.66053906660e-27   // kg
	lightCm   = 2.99792458e10       // cm/s
	planck    = 6.62607015e-34      // J s
	boltzmann = 1.380649e-23        // J/K
	gasR      = 8.31446261815324    // J/(mol K)
	electron  = 1.602176634e-19     // J/eV
	cmToEV    = planck * lightCm / electron
)
