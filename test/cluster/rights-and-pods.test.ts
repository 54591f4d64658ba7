/**
 * The operator's metrics, writes and refusals with its own rights, and a console beside it; then pods whose programs run
 * in this process or beside it. The files use one API server one after another.
 */
// The audit log of the API server includes the viewers' reads.
import './operator/console.ts'
import './operator/operator-metrics.ts'
import './operator/samples.ts'
import './operator/rights.ts'
import './operator/missing-kind.ts'
import './operator/admission.ts'
import './pods/config-delivery.ts'
import './pods/policies.ts'
import './pods/plugin.ts'
import './pods/gateway-status.ts'
import './pods/registry-status.ts'
import './pods/running-pods.ts'
