/** The lives of objects of each kind on one API server: each file has it to itself, one behind the other. */
import './scenarios/configs.ts'
import './scenarios/events.ts'
import './scenarios/gateways.ts'
import './scenarios/odd-templates.ts'
import './scenarios/proxies.ts'
import './scenarios/registries.ts'
import './scenarios/restarts.ts'
import './scenarios/servers.ts'
