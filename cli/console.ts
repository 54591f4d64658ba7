import { spawn } from 'node:child_process'
import { serveLocalConsole } from '../console/local.ts'
import { DEFAULT_GROUP } from '../crds/index.ts'
import { createLog } from '../dataplane/server/log.ts'
import { type Command, type Given, type Io, UsageError, waitForAbort } from './command.ts'
import { collectOften } from './memory.ts'
import { clusterGroupOption, readApiGroup } from './options/manifests.ts'
import { isLoopback, readAddress, readGivenLogLevel, readLogLevel } from './options/serving.ts'

const DEFAULT_ADDRESS = '127.0.0.1:4480'

const OPENERS: Readonly<Record<string, string>> = { darwin: 'open', linux: 'xdg-open' }

/** Opens a URL in the browser. A failure is not reported, since the URL is printed in any case. */
function openBrowser(url: string): void {
  const child = spawn(OPENERS[process.platform] ?? 'xdg-open', [url], { stdio: 'ignore', detached: true })
  child.on('error', () => undefined)
  child.unref()
}

async function serveKubeconfig(given: Given, io: Io): Promise<number> {
  const listen = readAddress(given, 'listen') ?? DEFAULT_ADDRESS
  if (!isLoopback(listen)) throw new UsageError(`--listen ${listen}: takes a loopback address; a pod takes --config`)
  const [{ ApiServer }, { loadKubeConfig }, { ClusterPlaces }] = await Promise.all([
    import('../operator/cluster/kubernetes/api-server.ts'),
    import('../operator/cluster/kubernetes/kube-config.ts'),
    import('../console/places/cluster.ts'),
  ])
  const context = given.text('context')
  const config = loadKubeConfig(given.text('kubeconfig'), { context, tell: (text) => io.err(`portico: ${text}`) })
  if (context !== undefined && !config.getContextObject(context))
    throw new UsageError(`--context ${context}: the kubeconfig has none of that name`)
  const api = new ApiServer(config, 'portico-console')
  const namespaces = given.texts('namespace')
  const places = new ClusterPlaces({
    title: config.getCurrentContext() || 'cluster',
    group: readApiGroup(given, io) ?? DEFAULT_GROUP,
    namespaces,
    isBound: namespaces.length > 0,
    apiFor: () => api,
    reach: 'proxy',
    close: () => config.closePool(),
  })
  const log = createLog({ name: 'console', level: readLogLevel(io) })
  const served = await serveLocalConsole({
    places: async () => places,
    listen,
    viewer: config.getCurrentUser().name || 'kubeconfig',
    log: () => log,
    onOpened: () => io.out(`Opened. For another browser: ${served.openUrl()}\n`),
  })
  io.out(`Console: ${served.openUrl()}\n`)
  if (given.flag('open')) openBrowser(served.openUrl())
  await waitForAbort(io.stop)
  await served.close()
  return 0
}

async function serveInPod(given: Given, io: Io): Promise<number> {
  for (const option of ['kubeconfig', 'context', 'open', 'api-group'])
    if (given.text(option) !== undefined || given.flag(option))
      throw new UsageError(`--${option} and --config exclude each other`)
  const configFile = given.text('config') as string
  const [{ serveConsole }, { ConfigError, findingLine }] = await Promise.all([
    import('../console/serve.ts'),
    import('../dataplane/config/load.ts'),
  ])
  collectOften()
  try {
    const served = await serveConsole({
      configFile,
      listen: readAddress(given, 'listen') ?? ':4480',
      log: (level) => createLog({ name: 'console', level: readGivenLogLevel(io) ?? level }),
      environment: io.env,
    })
    await waitForAbort(io.stop)
    await served.close()
    return 0
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const finding of error.findings) io.err(findingLine({ file: configFile, ...finding }))
    return 1
  }
}

export const command: Command = {
  name: 'console',
  synopsis: '[options]',
  about: `Shows a cluster in the browser, with the viewer's own rights: problems and their causes, how objects relate, who
may call what, and how clients connect. On a laptop it uses the kubeconfig and listens on a loopback address; the URL that it
prints lets one browser in.`,
  options: {
    kubeconfig: { type: 'string', value: 'FILE', description: 'The cluster. Default: KUBECONFIG, ~/.kube/config.' },
    context: { type: 'string', value: 'NAME', description: 'Context of the kubeconfig. Default: the current one.' },
    namespace: {
      type: 'string',
      short: 'n',
      multiple: true,
      value: 'NAME',
      description: 'Namespace to show; may be repeated. Default: all that may be read.',
    },
    listen: {
      type: 'string',
      value: 'HOST:PORT',
      description: `Address to listen on. Default: ${DEFAULT_ADDRESS}, with --config :4480.`,
    },
    config: {
      type: 'string',
      value: 'FILE',
      description: 'Serves from a pod, with logins, by this configuration (YAML).',
    },
    open: { type: 'boolean', description: 'Opens the browser.' },
    'api-group': clusterGroupOption,
  },
  mostOperands: 0,
  run: (given, io) => (given.text('config') === undefined ? serveKubeconfig(given, io) : serveInPod(given, io)),
}
