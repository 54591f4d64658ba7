/**
 * The Kubernetes components that tests run: from the folder KUBEBUILDER_ASSETS (the envtest convention; one file a
 * component), or the program that set-up builds of ./kube.
 */
import { join } from 'node:path'
import { goProgram } from '../../setup/go-program.ts'
import { assetsWith, CONTROL_PLANE } from '../../setup/needs.ts'

/** Program and leading arguments that start a component such as `kube-apiserver`. */
export type Component = (name: string) => readonly [program: string, ...args: string[]]

/** The components. Throws where set-up has not run. */
export function kubernetes(needed: readonly string[] = CONTROL_PLANE): Component {
  const assets = assetsWith(needed)
  if (assets) return (name) => [join(assets, name)]
  const binary = goProgram('kube')
  return (name) => [binary, name]
}
