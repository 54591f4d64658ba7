/** Applies a folder's objects with Flux's own library, which set-up builds from ../flux. */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { goProgram } from '../../setup/go-program.ts'

export interface FluxResult {
  /** The result for each object, such as `MCPServer/default/clock configured`. */
  readonly changes: readonly string[]
  /** The error that kept Flux from applying, or objects from becoming healthy in time. */
  readonly failed: string
}

/** Applies manifests as kustomize-controller does. With `seconds`, waits that long for all of them to be healthy. */
export async function fluxApplies(kubeconfig: string, manifests: string, seconds = 0): Promise<FluxResult> {
  const child = spawn(goProgram('flux-apply'), [`--kubeconfig=${kubeconfig}`, `--wait=${seconds}s`])
  child.stdin.end(manifests)
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const [printed, failed, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { changes: printed.trim().split('\n'), failed: code === 0 ? '' : failed.trim() || `it ended with ${code}` }
}
