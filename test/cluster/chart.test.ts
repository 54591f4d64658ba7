/** The chart on a real API server: a release by itself, then two installations beside each other. */
import './chart/release.ts'
import './chart/installations.ts'
