/**
 * The operator's metrics, writes and refusals with its own rights, and a console beside it. The files use one API
 * server one after another.
 */
// The audit log of the API server includes the viewers' reads.
import './operator/console.ts'
import './operator/operator-metrics.ts'
import './operator/samples.ts'
import './operator/rights.ts'
import './operator/missing-kind.ts'
import './operator/admission.ts'
