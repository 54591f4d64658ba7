/** What the operator tells, does and refuses under its own rights, on one API server: each file has it to itself. */
import './operator/operator-metrics.ts'
import './operator/samples.ts'
import './operator/rights.ts'
import './operator/admission.ts'
