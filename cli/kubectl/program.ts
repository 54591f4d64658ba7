import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { dataPlanePort } from '../../operator/runtime/pods/read-pod-status.ts'
import type { Io } from '../command.ts'
import type { Cluster } from './cluster.ts'

/** Starts kubectl, whose plugin this is; it ends with this process. */
export function startKubectl(args: readonly string[], io: Io, stdio: StdioOptions): ChildProcess {
  return spawn('kubectl', args, { stdio, env: io.env as NodeJS.ProcessEnv, signal: io.stop })
}

/** Returns the exit code of a started kubectl. Throws if it can't be started. */
export async function awaitExit(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => {
      if (error.name === 'AbortError') resolve(0)
      else reject(new Error(`kubectl can’t be started: ${error.message}`))
    })
    child.once('close', (code) => resolve(code ?? 1))
  })
}

const FORWARDING = /^Forwarding from 127\.0\.0\.1:(\d+) -> /

function findPort(pod: KubernetesObject, name: 'admin' | 'http' | 'mcp'): number {
  const found = dataPlanePort(pod, name)
  if (found === undefined) throw new Error(`the proxy in pod ${pod.metadata.name} has no port ${name}`)
  return found
}

async function readForwardedPort(output: NodeJS.ReadableStream): Promise<number | undefined> {
  for await (const line of createInterface({ input: output })) {
    const port = FORWARDING.exec(line)?.[1]
    if (port !== undefined) return Number(port)
  }
  return undefined
}

/**
 * Calls `use` with the base URL of a pod's port, by kubectl port-forward. Requests come from within the pod, so no
 * NetworkPolicy blocks them, and keep the Authorization header, which the API server's proxy would use itself.
 */
export async function withForwarded<T>(
  { pod, port: name }: { readonly pod: KubernetesObject; readonly port: 'admin' | 'http' | 'mcp' },
  cluster: Cluster,
  io: Io,
  use: (base: string) => Promise<T>,
): Promise<T> {
  const target = [`pod/${pod.metadata.name}`, `:${findPort(pod, name)}`]
  const args = ['port-forward', ...cluster.kubectlOptions, '--address=127.0.0.1', ...target]
  const kubectl = startKubectl(args, io, ['ignore', 'pipe', 'inherit'])
  const ended = awaitExit(kubectl)
  try {
    const opened = readForwardedPort(kubectl.stdout as NodeJS.ReadableStream)
    const port = await Promise.race([opened, ended.then(() => undefined)])
    if (port === undefined) throw new Error('kubectl port-forward has ended')
    return await use(`http://127.0.0.1:${port}`)
  } finally {
    kubectl.kill()
    await ended
  }
}
