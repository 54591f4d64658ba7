import { closest } from '../crds/settings/closest.ts'
import { alignColumns, formatHelp, type Io, type Program, readArguments, UsageError } from './command.ts'
import { staySmall } from './memory.ts'

/** Each command is one file or folder, loaded when it is called: a gateway's process loads nothing of the operator. */
export const portico: Program = {
  name: 'portico',
  about: 'Runs MCP servers on Kubernetes, and the same manifests on one machine.',
  commands: {
    run: { summary: 'runs manifests on this machine, without a cluster', load: () => import('./run/index.ts') },
    serve: { summary: 'serves one gateway or registry from its config file', load: () => import('./serve.ts') },
    render: { summary: 'prints what manifests become in a cluster, as YAML', load: () => import('./render.ts') },
    validate: { summary: 'checks manifests: schema, rules, references', load: () => import('./validate.ts') },
    diff: { summary: 'shows what applying manifests would change', load: () => import('./diff/index.ts') },
    migrate: { summary: 'moves manifests from one API group to another', load: () => import('./migrate.ts') },
    doctor: {
      summary: 'checks identity providers and MCP servers',
      load: () => import('./doctor/index.ts'),
    },
    pin: { summary: 'approves the definitions that servers show', load: () => import('./pin/index.ts') },
    explain: {
      summary: 'says which policy allows or denies a call',
      load: () => import('./explain.ts'),
    },
    console: {
      summary: 'shows a cluster in the browser: problems, access, how to connect',
      load: () => import('./console.ts'),
    },
    operator: {
      summary: 'runs the operator: turns custom resources into what runs',
      load() {
        staySmall()
        return import('./operator/index.ts')
      },
    },
    crds: { summary: 'prints the custom resource definitions', load: () => import('./crds.ts') },
    version: { summary: 'prints version, Node and API group', load: () => import('./version.ts') },
  },
}

function formatOverview({ name: program, about, commands }: Program): string {
  const rows = alignColumns(Object.entries(commands).map(([name, { summary }]) => [name, summary]))
  return `Usage: ${program} COMMAND [options]

${about}

Commands:
${rows.join('\n')}

'${program} COMMAND --help' explains each. Exit codes: 0 success, 1 a finding or failure, 2 wrong usage.
Environment: PORTICO_API_GROUP, PORTICO_LOG_LEVEL, PORTICO_STATE_DIR.
`
}

function refuseCommand(name: string, { commands }: Program): UsageError {
  const meant = closest(name, Object.keys(commands))
  return new UsageError(`unknown command ${name}${meant ? `; did you mean ${meant}?` : ''}`)
}

async function runCommand(program: Program, argv: readonly string[], io: Io): Promise<number> {
  const { commands } = program
  const [first, ...rest] = argv
  if (first === '--help' || first === '-h' || first === 'help') {
    io.out(formatOverview(program))
    return 0
  }
  if (first === undefined) throw new UsageError('a command is missing')
  const name = first === '--version' ? 'version' : first
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (!entry) throw refuseCommand(name, program)
  const { command } = await entry.load()
  try {
    const given = readArguments(command, rest)
    if (given === 'help') {
      io.out(formatHelp(command, program.name))
      return 0
    }
    return await command.run(given, io)
  } catch (error) {
    if (error instanceof UsageError) error.message = `${command.name}: ${error.message}`
    throw error
  }
}

const fileProblems: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EEXIST: 'is not a folder',
  ENOTDIR: 'is not a folder',
  EISDIR: 'is a folder',
  EACCES: 'permission denied',
  EROFS: 'is on a file system that can only be read',
}

function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, path } = error as NodeJS.ErrnoException
  const problem = code === undefined ? undefined : fileProblems[code]
  return problem === undefined || path === undefined ? error.message : `${path}: ${problem}`
}

/** Runs one command line. Returns the exit code: 0 success, 1 a finding or failure, 2 wrong usage. */
export async function dispatch(argv: readonly string[], io: Io): Promise<number> {
  const isPlugin = argv[0] === 'kubectl'
  const program = isPlugin ? (await import('./kubectl/index.ts')).program : portico
  const own = isPlugin ? argv.slice(1) : argv
  try {
    return await runCommand(program, own, io)
  } catch (error) {
    if (error instanceof UsageError) {
      const [first] = own
      const isKnown = first !== undefined && Object.hasOwn(program.commands, first)
      const known = isKnown ? `${program.name} ${first} --help` : `${program.name} --help`
      io.err(`portico: ${error.message}; see '${known}'`)
      return 2
    }
    const { maskSecrets } = await import('../dataplane/config/check/url.ts')
    io.err(`portico: ${maskSecrets(describeError(error))}`)
    return 1
  }
}
