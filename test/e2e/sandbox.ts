/**
 * A sandbox for a Kubernetes node on this machine that leaves nothing behind: its own network, mount and process
 * namespaces. Bridges, firewall rules and mounts are removed with them, and all processes end with the first one.
 */
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { CNI_FOLDERS } from '../setup/needs.ts'

/** The folder of the CNI plugins; undefined if there is none. */
export const pluginFolder = () => CNI_FOLDERS.find((folder) => existsSync(join(folder, 'bridge')))

/** Throws an Error that says what to do if no node can be started here. */
export function checkMachine(): void {
  if (process.platform !== 'linux') throw new Error('a Kubernetes node needs Linux; run this in a Linux machine')
  if (process.getuid?.() !== 0) throw new Error('a Kubernetes node needs root: run it as `sudo make e2e`')
}

/** Name of the cgroup under which the kubelet puts containers; cgroups belong to no namespace. */
export const controlGroup = (directory: string) => basename(directory)

/** Removes the cgroups of containers, whose folders contain only the kernel's own files. */
function removeControlGroups(name: string): void {
  const removeFolder = (folder: string) => {
    for (const child of readdirSync(folder, { withFileTypes: true }))
      if (child.isDirectory()) removeFolder(join(folder, child.name))
    rmdirSync(folder)
  }
  for (const folder of globSync([`/sys/fs/cgroup/${name}`, `/sys/fs/cgroup/*/${name}`])) removeFolder(folder)
}

/**
 * Runs one of our scripts in a new sandbox, with the sandbox's folder as first argument, and returns its exit code.
 * Afterwards no process, mount, network device, firewall rule, cgroup or file of it is left.
 */
export async function runInSandbox(script: string, args: readonly string[]): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'portico-node-'))
  const namespaces = ['--net', '--mount', '--propagation=private', '--pid', '--fork', '--kill-child', '--mount-proc']
  const command = [process.execPath, '--disable-warning=ExperimentalWarning', script, directory, ...args]
  // The pipe closes when this process ends, however it ends; see `endWithParent`.
  const child = spawn('unshare', [...namespaces, '--', ...command], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
  })
  // The terminal sends Ctrl-C to the child too, which then stops by itself; a second one kills it.
  let isStopping = false
  process.on('SIGINT', () => {
    if (isStopping) child.kill('SIGKILL')
    isStopping = true
  })
  process.on('SIGTERM', () => child.kill('SIGKILL'))
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code) => resolve(code ?? 1))
    })
  } finally {
    removeControlGroups(controlGroup(directory))
    rmSync(directory, { recursive: true, force: true, maxRetries: 10 })
  }
}

/** Ends the sandbox's first process, and so all others, when its parent is gone. Call it once inside the sandbox. */
export function endWithParent(): void {
  const parent = new Socket({ fd: 3 })
  parent.once('close', () => process.exit(1))
  parent.resume()
  parent.unref()
}

/** Settings of the whole machine that a kubelet wants to change; it gets ordinary files instead. */
const KERNEL_SETTINGS: Readonly<Record<string, string>> = {
  'vm/overcommit_memory': '1',
  'vm/panic_on_oom': '0',
  'kernel/panic': '10',
  'kernel/panic_on_oops': '1',
  'kernel/keys/root_maxkeys': '1000000',
  'kernel/keys/root_maxbytes': '25000000',
}

/**
 * Keeps everything that is written below /var/lib, /var/log and /run from now on in the sandbox. Call it once inside.
 *
 * @param address an address for the loopback device, which pods and host processes share; host processes use a name
 * server   there
 */
export function prepareSandbox(directory: string, address: string): void {
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const layers = join(directory, 'layers')
  mkdirSync(layers)
  run('mount', '-t', 'tmpfs', 'layers', layers)
  for (const folder of ['/var/lib', '/var/log']) {
    const [upper, work] = ['upper', 'work'].map((part) => join(layers, folder.replaceAll('/', '-'), part)) as [
      string,
      string,
    ]
    mkdirSync(upper, { recursive: true })
    mkdirSync(work, { recursive: true })
    run('mount', '-t', 'overlay', 'overlay', '-o', `lowerdir=${folder},upperdir=${upper},workdir=${work}`, folder)
  }
  const resolvers = realpathSync('/etc/resolv.conf')
  run('mount', '-t', 'tmpfs', 'run', '/run')
  // systemd-resolved keeps the file below /run.
  mkdirSync(dirname(resolvers), { recursive: true })
  writeFileSync(resolvers, '', { flag: 'a' })
  writeFileSync(join(layers, 'resolv.conf'), `nameserver ${address}\n`)
  run('mount', '--bind', join(layers, 'resolv.conf'), resolvers)
  for (const [setting, value] of Object.entries(KERNEL_SETTINGS)) {
    const file = join(layers, setting.replaceAll('/', '-'))
    writeFileSync(file, `${value}\n`)
    run('mount', '--bind', file, join('/proc/sys', setting))
  }
  run('ip', 'link', 'set', 'lo', 'up')
  run('ip', 'address', 'add', `${address}/32`, 'dev', 'lo')
  // No device has the addresses of Services: without a route, packets to them would never reach the firewall.
  run('ip', 'route', 'add', 'default', 'dev', 'lo', 'src', address)
  writeFileSync('/proc/sys/net/ipv4/ip_forward', '1')
}
