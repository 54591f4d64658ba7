/**
 * What the operator tells, does and refuses under its own rights, and a console beside it, on one API server: each file
 * has it to itself.
 */
// It has the API server note what viewers read.
import './operator/console.ts'
import './operator/operator-metrics.ts'
import './operator/samples.ts'
import './operator/rights.ts'
import './operator/missing-kind.ts'
import './operator/admission.ts'
