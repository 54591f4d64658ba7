/**
 * Set-up of the tests: looks what the machine lacks of what they need, says what it is about to do, and does it, all
 * before the first test. It is done once on a machine; afterwards it costs the look alone.
 */
import { join } from 'node:path'
import { cacheFolder, removeUnfinished } from './cache.ts'
import { locked } from './lock.ts'
import type { Need } from './need.ts'
import { announcement, type Machine, type Plan, packageNames, planFor, refusal, thisMachine } from './plan.ts'
import { run } from './program.ts'

/** Between two lines of progress. */
const TELL_MS = 15_000

const nothing = ({ installed, made, byHand }: Plan) => installed.length + made.length + byHand.length === 0

/** Brings what is missing of these needs. Throws an Error that says what to do where it can't. */
export async function setUp(needs: readonly Need[], machine: Machine = thisMachine()): Promise<void> {
  const first = planFor(needs, machine)
  if (nothing(first)) return
  const refused = refusal(first, machine)
  if (refused) throw new Error(refused)
  const waiting = () => console.log('Set-up: another one is at work; waiting for its end')
  await locked(join(cacheFolder(), 'setup.lock'), waiting, async () => {
    // Whoever held the lock before may have done some or all of it.
    const plan = planFor(needs, machine)
    if (nothing(plan)) return
    console.log(announcement(plan, machine))
    const started = performance.now()
    removeUnfinished()
    await install(plan, machine)
    for (const { name, make } of plan.made) await told(name, (progress) => make?.(progress))
    removeUnfinished()
    console.log(`Set-up is done (${elapsed(started)})`)
  })
}

const elapsed = (since: number) => {
  const seconds = Math.round((performance.now() - since) / 1000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

/** Does one thing, and says now and then what it is at. */
async function told(
  name: string,
  work: (progress: (state: string) => void) => Promise<void> | undefined,
): Promise<void> {
  const started = performance.now()
  console.log(`→ ${name}`)
  let state = ''
  const timer = setInterval(() => console.log(`    ${elapsed(started)}  ${state}`), TELL_MS)
  try {
    await work((now) => {
      state = now
    })
  } finally {
    clearInterval(timer)
  }
  console.log(`    ${elapsed(started)}  there`)
}

async function install(plan: Plan, machine: Machine): Promise<void> {
  const packages = packageNames(plan, machine)
  if (packages.length === 0) return
  const apt = (progress: (state: string) => void, ...args: string[]) =>
    run(
      {
        program: 'apt-get',
        args: ['-o', 'DPkg::Lock::Timeout=300', ...args],
        env: { DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      },
      (line) => {
        if (/^(Get|Hit|Unpacking|Setting up)/.test(line)) progress(line)
      },
    )
  await told(`Debian packages: ${packages.join(' ')}`, async (progress) => {
    await apt(progress, 'update')
    await apt(progress, 'install', '--yes', '--no-install-recommends', ...packages)
  })
  const absent = plan.installed.filter((need) => !need.present())
  if (absent.length > 0)
    throw new Error(`the packages are installed, and still there is no ${absent.map(({ name }) => name).join(', ')}`)
}
