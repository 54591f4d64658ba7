/** Pods whose programs run in this process or beside it, on one API server. */
import './pods/config-delivery.ts'
import './pods/policies.ts'
import './pods/plugin.ts'
import './pods/gateway-status.ts'
import './pods/registry-status.ts'
import './pods/running-pods.ts'
