/** Runs the operator as a separate process, with its shipped permissions, against a real control plane. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseAllDocuments } from 'yaml'
import { crdFor, type KindDeclaration, kinds, VERSION } from '../../../crds/index.ts'
import { deployFiles } from '../../../operator/deploy/manifests.ts'
import { freePort } from '../../support/network/free-port.ts'
import { porticoScript } from '../../support/portico-program.ts'
import type { ControlPlane } from './control-plane.ts'
import { eventually } from './eventually.ts'

export { eventually } from './eventually.ts'

const GROUP = 'portico.dev'
/** Namespace of the operator. */
export const SYSTEM = 'portico-system'

export const OPERATOR_USER = `system:serviceaccount:${SYSTEM}:portico-operator` as const

/** Returns the objects in a YAML text. */
const parseDocuments = (text: string): object[] =>
  parseAllDocuments(text).flatMap((document) => (document.toJS() as object | null) ?? [])

/**
 * Installs the CRDs, the namespace, the service account and the roles, which is the shipped installation without its
 * Deployment.
 */
export async function installOperator(plane: ControlPlane): Promise<void> {
  const declarations: readonly KindDeclaration[] = Object.values(kinds)
  plane.applyOnServer(declarations.map((declaration) => crdFor(declaration, GROUP)))
  const plurals = declarations.map(({ plural }) => plural)
  await eventually(() => plane.serves(GROUP, VERSION, plurals), 'the kinds are served')
  for (const [path, text] of deployFiles(declarations, GROUP)) {
    const file = join(plane.directory, 'deploy', path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  for (const file of ['namespace.yaml', 'rbac.yaml'])
    plane.apply(...parseDocuments(readFileSync(join(plane.directory, 'deploy', file), 'utf8')))
}

/** Writes a kubeconfig with the operator's own token, for the API server or a proxy in front of it. */
export function operatorKubeconfig(plane: ControlPlane, name = 'operator', server?: string): string {
  return plane.kubeconfigFor(name, plane.token('portico-operator', SYSTEM), server)
}

export interface OperatorProcess {
  readonly pid: number
  readonly health: string
  readonly metrics: string
  /** The log so far, as JSON lines. */
  log(): string
  readonly exited: boolean
  /** Resolves once every watch has returned its first list. */
  ready(): Promise<void>
  stop(signal?: NodeJS.Signals): Promise<void>
}

export async function startOperator(
  kubeconfig: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  program: readonly string[] = [porticoScript],
): Promise<OperatorProcess> {
  const [health, metrics] = await Promise.all([freePort(), freePort()])
  const child: ChildProcess = spawn(
    process.execPath,
    [
      ...program,
      'operator',
      `--kubeconfig=${kubeconfig}`,
      `--health-listen=127.0.0.1:${health}`,
      `--metrics-listen=127.0.0.1:${metrics}`,
      ...args,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, POD_NAMESPACE: SYSTEM, ...env } },
  )
  let output = ''
  child.stdout?.on('data', (chunk) => {
    output += chunk
  })
  child.stderr?.on('data', (chunk) => {
    output += chunk
  })
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const hasExited = () => child.exitCode !== null || child.signalCode !== null
  const url = `http://127.0.0.1:${health}`
  return {
    pid: child.pid as number,
    health: url,
    metrics: `http://127.0.0.1:${metrics}/metrics`,
    log: () => output,
    get exited() {
      return hasExited()
    },
    async ready() {
      const deadline = Date.now() + 180_000
      while (Date.now() < deadline && !hasExited()) {
        const response = await fetch(`${url}/readyz`).catch(() => undefined)
        if (response?.ok) return
        await delay(50)
      }
      throw new Error(`the operator did not become ready:\n${output.slice(-4000)}`)
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      await gone
    },
  }
}
