/**
 * Loaded before each test file (test/run.ts): tells what keeps it alive when it is asked by SIGUSR2, and the errors of
 * hooks that uvu leaves out. Its runner returns in `finally`: what `before` throws is lost, and what `after.each`
 * throws behind a test that has failed, with that test. What `before.each` throws is lost where it is no Error.
 */
import { test } from 'uvu'

type Hook = Parameters<typeof test.before>[0]
type AddHook = (hook: Hook) => void

const telling =
  (add: AddHook, name: string): AddHook =>
  (hook) =>
    add(async (context) => {
      try {
        await hook(context)
      } catch (error) {
        console.error(`the hook ${name} of the tests threw:`, error)
        throw error
      }
    })

test.before = Object.assign(telling(test.before, 'before'), { each: telling(test.before.each, 'before.each') })
test.after.each = telling(test.after.each, 'after.each')

/** What keeps this process alive, for the runner that is about to end it. */
function openHandles(): string {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): object[] }
  const described = handles().map((handle) => {
    const { localPort, remotePort, pid, spawnfile } = handle as Readonly<Record<string, unknown>>
    return `${handle.constructor.name} ${JSON.stringify({ localPort, remotePort, pid, spawnfile })}`
  })
  return [...process.getActiveResourcesInfo(), ...described].join(', ')
}

process.on('SIGUSR2', () => console.error(`open: ${openHandles()}`))
