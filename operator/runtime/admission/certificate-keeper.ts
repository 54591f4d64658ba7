import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import type { Logger } from 'pino'
import { type ApiServer, ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { pause } from '../queue/pause.ts'
import { type Issued, issue } from './issue.ts'

const SECRETS = { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' }
const CONFIGURATIONS = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
  kind: 'ValidatingWebhookConfiguration',
}
const FIELD_MANAGER = 'portico-admission'

/** Milliseconds. A certificate lives 90 days and is trusted for 15 minutes before it is served. */
const TIMES: CertificateKeeperTimes = { lifetime: 90 * 86_400_000, settle: 15 * 60_000, check: 60_000, retry: 5_000 }

interface CertificateKeeperTimes extends CertificateTimes {
  /** The interval between two checks of Secret and configuration, and the interval after a check that failed. */
  readonly check: number
  readonly retry: number
}

/** The listener's certificate and key in PEM, and the path that it answers at. */
interface ServedCertificate {
  readonly cert: string
  readonly key: string
  readonly path: string
}

interface KeeperOptions {
  readonly api: ApiServer
  /** The namespace of the operator, and of the Secret and Service of this name. */
  readonly namespace: string
  readonly name: string
  /** The name of the ValidatingWebhookConfiguration and of its webhook. */
  readonly configuration: string
  readonly webhook: string
  /** Called with what to serve now: first at the start, then at each change. */
  readonly onServe: (served: ServedCertificate) => Promise<void>
  readonly log: Logger
  readonly times?: Partial<CertificateKeeperTimes>
  readonly now?: () => number
}

export interface AdmissionStatus {
  /** The end of the served certificate. Absent while the webhook serves none and answers nobody. */
  readonly certificateUntil?: string
  readonly problem?: string
}

interface Webhook {
  readonly name: string
  readonly clientConfig?: { readonly caBundle?: string; readonly service?: { readonly path?: string } }
}

/**
 * Keeps the certificate of the webhook in a shared Secret, and its authority in `caBundle`. The first writer wins. A
 * new certificate is trusted before it is served, so that no request is refused. Never creates the Secret or the
 * configuration.
 */
export class CertificateKeeper {
  readonly #options: KeeperOptions
  readonly #times: CertificateKeeperTimes
  readonly #stopping = new AbortController()
  #serving = ''
  #until: string | undefined
  #failure = ''
  #running: Promise<void> | undefined

  constructor(options: KeeperOptions) {
    this.#options = options
    this.#times = { ...TIMES, ...options.times }
  }

  get status(): AdmissionStatus {
    return {
      ...(this.#until !== undefined && { certificateUntil: this.#until }),
      ...(this.#failure !== '' && { problem: this.#failure }),
    }
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      let isGood = false
      try {
        isGood = await this.#check()
      } catch (error) {
        this.#failed(error as Error)
      }
      await pause(isGood ? this.#times.check : this.#times.retry, signal)
    }
  }

  /** Returns false if another try is due soon. */
  async #check(): Promise<boolean> {
    const kept = await this.#readSecret()
    if (!kept) return false
    let failure: Error | undefined
    try {
      await this.#trust(kept)
    } catch (error) {
      failure = error as Error
    }
    // A certificate that is not trusted yet must not replace one that is.
    if (failure === undefined || this.#serving === '') await this.#serve(kept)
    if (failure !== undefined) throw failure
    this.#failure = ''
    return true
  }

  /** Reads the Secret and renews its certificate if due. Returns nothing if another replica has just done so. */
  async #readSecret(): Promise<Kept | undefined> {
    const { api, namespace, name, now = Date.now, log } = this.#options
    const host = `${name}.${namespace}.svc`
    const secret = await api.get<KubernetesObject & { data?: Record<string, string> }>(SECRETS, namespace, name)
    const { kept, isNew } = renewed(readKept(secret.data ?? {}, host), host, now(), this.#times)
    if (!isNew) return kept
    // The write names the resource version that was read, so that of two replicas one is refused.
    const write = api.replace(SECRETS, namespace, name, { ...secret, data: encodeData(kept) })
    if ((await ignoreStatus(write, 409)) === undefined) return undefined
    log.info({ in: `${namespace}/${name}` }, 'a new certificate for the admission webhook')
    return kept
  }

  /** Tells the API server which authority to trust and which path to ask, if it doesn't know yet. */
  async #trust(kept: Kept): Promise<void> {
    const { api, configuration, webhook } = this.#options
    const found = await api.get<KubernetesObject & { webhooks?: Webhook[] }>(CONFIGURATIONS, undefined, configuration)
    const caBundle = Buffer.from(trusted(kept)).toString('base64')
    const path = formatPath(kept)
    const ours = found.webhooks?.find(({ name }) => name === webhook)
    if (!ours) throw new Error(`ValidatingWebhookConfiguration ${configuration} has no webhook ${webhook}`)
    if (ours.clientConfig?.caBundle === caBundle && ours.clientConfig.service?.path === path) return
    await api.apply(
      CONFIGURATIONS,
      {
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: CONFIGURATIONS.kind,
        // The uid keeps the apply from creating a configuration that was deleted meanwhile.
        metadata: { name: configuration, ...(found.metadata.uid ? { uid: found.metadata.uid } : {}) },
        webhooks: [{ name: webhook, clientConfig: { caBundle, service: { path } } }],
      },
      FIELD_MANAGER,
    )
  }

  async #serve(kept: Kept): Promise<void> {
    const { onServe, now = Date.now } = this.#options
    const issued = served(kept, now(), this.#times)
    const { certificate, key } = issued
    const path = formatPath(kept)
    if (this.#serving === certificate + path) return
    await onServe({ cert: certificate, key, path })
    this.#serving = certificate + path
    this.#until = new Date(readEnd(issued)).toISOString()
  }

  /** Logs a failure once until another one takes its place. */
  #failed(error: Error): void {
    // The API server repeats the path that it refuses, and the path holds the token.
    const reason = error.message.replaceAll(TOKEN_IN_PATH, '/validate/…')
    if (this.#failure === reason) return
    this.#failure = reason
    this.#options.log.warn({ error: reason }, 'the certificate of the admission webhook could not be updated')
  }
}

const formatPath = ({ token }: Kept) => `/validate/${token}`
const TOKEN_IN_PATH = /\/validate\/[0-9a-f]+/g

/** Milliseconds. */
interface CertificateTimes {
  /** The lifetime of a certificate. The next one is made when a third of it is left. */
  readonly lifetime: number
  /** The time for which a new certificate is trusted but not served. */
  readonly settle: number
}

export interface Kept {
  /** The last part of the webhook's path. Only the API server is told of it. */
  readonly token: string
  readonly issued: readonly [Issued, ...Issued[]]
}

/** A certificate is valid a little before it is made, because clocks differ. */
const BACKDATED_MS = 60 * 60_000
/** A webhook's path consists of names in lower case. */
const TOKEN = /^[0-9a-f]{64}$/
const PREFIXES = ['', 'previous-'] as const

const readCreationTime = ({ certificate }: Issued) =>
  new X509Certificate(certificate).validFromDate.getTime() + BACKDATED_MS
const readEnd = ({ certificate }: Issued) => new X509Certificate(certificate).validToDate.getTime()

function isUsable({ ca, certificate, key }: Issued, host: string): boolean {
  try {
    const found = new X509Certificate(certificate)
    return (
      found.checkHost(host) !== undefined &&
      found.checkPrivateKey(createPrivateKey(key)) &&
      found.verify(new X509Certificate(ca).publicKey)
    )
  } catch {
    return false
  }
}

/** Returns what is usable of a Secret's data. Anything else, whoever has changed it, counts as absent. */
export function readKept(data: Readonly<Record<string, string>>, host: string) {
  const text = (name: string) => Buffer.from(String(data[name] ?? ''), 'base64').toString()
  const issued = PREFIXES.map((prefix) => ({
    ca: text(`${prefix}ca.crt`),
    certificate: text(`${prefix}tls.crt`),
    key: text(`${prefix}tls.key`),
  })).filter((one) => isUsable(one, host))
  const token = text('token')
  return { token: TOKEN.test(token) ? token : undefined, issued }
}

export const encodeData = ({ token, issued }: Kept): Record<string, string> =>
  Object.fromEntries(
    [
      ['token', token] as const,
      ...issued.flatMap(({ ca, certificate, key }, index) =>
        Object.entries({ 'ca.crt': ca, 'tls.crt': certificate, 'tls.key': key }).map(
          ([name, value]) => [`${PREFIXES[index]}${name}`, value] as const,
        ),
      ),
    ].map(([name, value]) => [name, Buffer.from(value).toString('base64')]),
  )

/** Returns what should be kept at this moment (milliseconds), and whether it differs from what is kept. */
export function renewed(
  { token, issued }: ReturnType<typeof readKept>,
  host: string,
  now: number,
  { lifetime }: CertificateTimes,
): { readonly kept: Kept; readonly isNew: boolean } {
  const [newest] = issued
  const isYoung = newest !== undefined && readEnd(newest) - now > lifetime / 3
  if (token !== undefined && isYoung) return { kept: { token, issued: [newest, ...issued.slice(1)] }, isNew: false }
  const next = isYoung ? newest : issue(host, { from: new Date(now - BACKDATED_MS), until: new Date(now + lifetime) })
  const before = isYoung ? issued.slice(1) : issued.slice(0, 1)
  return { kept: { token: token ?? randomBytes(32).toString('hex'), issued: [next, ...before] }, isNew: true }
}

/** Returns the certificate to serve now: the newest that has been trusted long enough, or else the newest. */
export function served({ issued }: Kept, now: number, { settle }: CertificateTimes): Issued {
  const isSettled = (one: Issued) => now - readCreationTime(one) >= settle && readEnd(one) > now
  return issued.find(isSettled) ?? issued[0]
}

/** Returns all trusted authorities, one PEM after the other. */
export const trusted = ({ issued }: Kept): string => issued.map(({ ca }) => ca).join('')
