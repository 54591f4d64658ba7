/** Children of workloads on one API server. */
// Runs before an operator exists, because it needs none.
import './children/drift.ts'
import './children/auth-server.ts'
import './children/disruption.ts'
import './children/owners.ts'
import './children/permission-profile.ts'
import './children/hand-changes.ts'
import './children/http-route.ts'
import './children/port-names.ts'
import './children/rollouts.ts'
import './children/secret-values.ts'
import './children/services.ts'
