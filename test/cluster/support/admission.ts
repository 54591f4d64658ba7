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
  /** The operator's arguments that make it serve the webhook. */
  readonly options: readonly string[]
}

/**
 * Installs the shipped webhook, after `installOperator`. There is no Service network, so the Service leads to a local
 * port.
 */
export async function installWebhook({ kubectl, patch, directory }: ControlPlane): Promise<InstalledWebhook> {
  const port = await freePort()
  kubectl(['apply', '-f', join(directory, 'deploy/admission/admission.yaml')])
  const externalName = { spec: { type: 'ExternalName', externalName: 'localhost', clusterIP: null, selector: null } }
  patch('service', WEBHOOK_SERVICE, externalName, { namespace: 'portico-system', type: 'strategic' })
  const toPort = [
    { op: 'replace', path: '/webhooks/0/clientConfig/service/port', value: port },
    // The longest allowed timeout: on a busy machine the shipped one may pass, and then there are no warnings.
    { op: 'replace', path: '/webhooks/0/timeoutSeconds', value: 30 },
  ]
  patch('validatingwebhookconfiguration', WEBHOOK, toPort, { type: 'json' })
  return { port, options: [`--admission=${WEBHOOK}`, `--admission-listen=127.0.0.1:${port}`] }
}
