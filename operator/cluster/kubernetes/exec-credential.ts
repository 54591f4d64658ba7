import { spawn } from 'node:child_process'
import { isObject } from '../../../crds/settings/json.ts'

/** The plugin that gets a user's credentials (client-go credential plugins, `client.authentication.k8s.io`). */
export interface ExecSettings {
  readonly apiVersion: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly installHint: string | undefined
  readonly provideClusterInfo: boolean
  /** `Never`, `IfAvailable` or `Always`. */
  readonly interactiveMode: string | undefined
}

export interface ExecCredential {
  readonly token?: string
  readonly cert?: string
  readonly key?: string
}

const VERSION = /^client\.authentication\.k8s\.io\/(v1|v1beta1)$/
const MOST_BYTES = 1024 * 1024

interface Kept {
  readonly credential: Promise<ExecCredential & { readonly expires: number }>
  expires: number
}

export function createExecCredentials() {
  const kept = new Map<string, Kept>()
  return {
    /**
     * Returns a user's credential from the cache or its plugin, which may want the information of `cluster`. Rejects with
     * an Error that names the plugin.
     */
    get(user: string, settings: ExecSettings, cluster: () => object): Promise<ExecCredential> {
      const known = kept.get(user)
      if (known !== undefined && known.expires > Date.now()) return known.credential
      const credential = askPlugin(settings, cluster)
      const fresh: Kept = { credential, expires: Number.POSITIVE_INFINITY }
      kept.set(user, fresh)
      const forget = () => {
        if (kept.get(user) === fresh) kept.delete(user)
      }
      credential.then(({ expires }) => {
        fresh.expires = expires
      }, forget)
      return credential
    },
    forget: () => kept.clear(),
  }
}

async function askPlugin(settings: ExecSettings, cluster: () => object) {
  const { apiVersion, command, provideClusterInfo } = settings
  if (!VERSION.test(apiVersion))
    throw new Error(`exec: the apiVersion ${apiVersion || '""'} of ${command} is not known`)
  const interactive = isInteractive(settings)
  const info = {
    apiVersion,
    kind: 'ExecCredential',
    spec: { interactive, ...(provideClusterInfo && { cluster: cluster() }) },
  }
  return readCredential(await runPlugin(settings, JSON.stringify(info), interactive), settings)
}

function isInteractive({ apiVersion, command, interactiveMode }: ExecSettings): boolean {
  const isTerminal = process.stdin.isTTY === true
  switch (interactiveMode ?? (apiVersion.endsWith('/v1') ? undefined : 'IfAvailable')) {
    case 'Never':
      return false
    case 'IfAvailable':
      return isTerminal
    case 'Always':
      if (!isTerminal) throw new Error(`exec: ${command} needs a terminal (interactiveMode: Always), and there is none`)
      return true
    default:
      throw new Error(`exec: interactiveMode of ${command} must be Never, IfAvailable or Always`)
  }
}

async function runPlugin(settings: ExecSettings, info: string, interactive: boolean): Promise<string> {
  const { command, args, env, installHint } = settings
  const child = spawn(command, args, {
    env: { ...process.env, ...env, KUBERNETES_EXEC_INFO: info },
    // The plugin's questions and errors are for the user.
    stdio: [interactive ? 'inherit' : 'ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      const hint = installHint === undefined ? '' : `; ${installHint}`
      reject(new Error(`exec: ${command} can’t be started (${error.code})${hint}`))
    })
    child.once('close', resolve)
  })
  let output = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text
    if (output.length > MOST_BYTES) child.kill()
  })
  const exitCode = await ended
  if (exitCode !== 0) throw new Error(`exec: ${command} failed with exit code ${exitCode}`)
  return output
}

function readCredential(output: string, { apiVersion, command }: ExecSettings) {
  let answer: unknown
  try {
    answer = JSON.parse(output)
  } catch {
    throw new Error(`exec: the output of ${command} is not valid JSON`)
  }
  const { apiVersion: answered, kind, status } = isObject(answer) ? answer : {}
  if (answered !== apiVersion || kind !== 'ExecCredential' || !isObject(status))
    throw new Error(`exec: ${command} must write an ExecCredential of ${apiVersion} with a status`)
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = status
  const isPair = typeof cert === 'string' && typeof key === 'string'
  if (!isPair && typeof token !== 'string')
    throw new Error(`exec: ${command} returns neither a token nor a certificate with its key`)
  const expires = typeof expirationTimestamp === 'string' ? Date.parse(expirationTimestamp) : Number.NaN
  return {
    ...(typeof token === 'string' && { token }),
    ...(isPair && { cert, key }),
    expires: Number.isNaN(expires) ? Number.POSITIVE_INFINITY : expires,
  }
}
