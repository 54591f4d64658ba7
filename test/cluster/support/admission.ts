import { join } from 'node:path'
import { freePort } from '../../support/network/free-port.ts'
import type { ControlPlane } from './control-plane.ts'

/** Name of the webhook's configuration. */
export const WEBHOOK = 'portico-operator.portico-system'
/** Name of its Service and of the Secret with its certificate, in `portico-system`. */
export const WEBHOOK_SERVICE = 'portico-operator-admission'

/** The webhook of an operator that runs on loopback. */
export interface InstalledWebhook {
  readonly port: number
  /** What the operator is started with to serve it. */
  readonly options: readonly string[]
}

/** Installs the webhook as it ships, behind `installOperator`. There is no Service network: the Service leads to a port of loopback. */
export async function installWebhook({ kubectl, patch, directory }: ControlPlane): Promise<InstalledWebhook> {
  const port = await freePort()
  kubectl(['apply', '-f', join(directory, 'deploy/admission/admission.yaml')])
  const externalName = { spec: { type: 'ExternalName', externalName: 'localhost', clusterIP: null, selector: null } }
  patch('service', WEBHOOK_SERVICE, externalName, { namespace: 'portico-system', type: 'strategic' })
  const toPort = [
    { op: 'replace', path: '/webhooks/0/clientConfig/service/port', value: port },
    // The longest there may be: where a busy machine takes longer than what is shipped, nobody is warned.
    { op: 'replace', path: '/webhooks/0/timeoutSeconds', value: 30 },
  ]
  patch('validatingwebhookconfiguration', WEBHOOK, toPort, { type: 'json' })
  return { port, options: [`--admission=${WEBHOOK}`, `--admission-listen=127.0.0.1:${port}`] }
}
