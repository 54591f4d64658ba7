import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { porticoProgram } from '../portico-program.ts'
import type { RegistryFolder } from './registry.ts'

export interface RegistryProcess {
  readonly child: ChildProcess
  readonly url: string
  readonly adminUrl: string
}

const [program, ...options] = porticoProgram
const LISTEN = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']

/** Starts `portico serve registry` as a process of its own, with these flags of Node, and waits until it serves. */
export async function startRegistryProcess(
  { configFile, stateDirectory }: Pick<RegistryFolder, 'configFile' | 'stateDirectory'>,
  flags: readonly string[] = [],
): Promise<RegistryProcess> {
  const child = spawn(program, [...flags, ...options, 'serve', 'registry', '--config', configFile, ...LISTEN], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, PORTICO_STATE_DIR: stateDirectory },
  })
  return new Promise((resolve, reject) => {
    // All lines are read: the process would wait for room for the next one.
    createInterface(child.stderr).on('line', (line) => {
      if (!line.includes('the registry is served')) return
      const { url, admin } = JSON.parse(line) as { readonly url: string; readonly admin: string }
      resolve({ child, url, adminUrl: admin })
    })
    child.once('exit', (code) => reject(new Error(`the registry has ended with ${code}`)))
  })
}
