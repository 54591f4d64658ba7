/**
 * Finds the Kubernetes components that tests run: in the folder KUBEBUILDER_ASSETS (the envtest convention, one file
 * for each component), or in the program that set-up builds from ./kube.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { goProgram } from '../../setup/go-program.ts'
import { assetsWith, CONTROL_PLANE } from '../../setup/needs.ts'

/** The program and leading arguments that start a component such as `kube-apiserver`. */
export type Component = (name: string) => readonly [program: string, ...args: string[]]

/** Returns the components. Throws if set-up has not run. */
export function kubernetes(needed: readonly string[] = CONTROL_PLANE): Component {
  const assets = assetsWith(needed)
  if (assets) return (name) => [join(assets, name)]
  const binary = goProgram('kube')
  return (name) => [binary, name]
}

/** Returns the minor version of a component, such as 36 for Kubernetes 1.36. */
export function minorVersion([program, ...leading]: ReturnType<Component>): number {
  const output = execFileSync(program, [...leading, '--version'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return Number(/v1\.(\d+)\./.exec(output)?.[1])
}
