/**
 * Loaded before each test file (test/run.ts). On SIGUSR2 it reports what keeps the file alive. It also reports the
 * errors of hooks that uvu loses, because uvu's runner returns in `finally`: errors of `before`, errors of `after.each`
 * after a failed test, and values that `before.each` throws that are not an Error. An error of `after` would end the
 * process before uvu reports which tests have failed; it makes the file fail at its end instead.
 */
import { test } from 'uvu'

type Hook = Parameters<typeof test.before>[0]
type AddHook = (hook: Hook) => void

const wrapHook =
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

test.before = Object.assign(wrapHook(test.before, 'before'), { each: wrapHook(test.before.each, 'before.each') })

/** Tells whether an `after` of the tests has thrown in this process. */
export const afterHooks = { haveFailed: false }

const { after } = test
const addAfter: AddHook = (hook) =>
  after(async (context) => {
    try {
      await hook(context)
    } catch (error) {
      console.error('the hook after of the tests threw:', error)
      afterHooks.haveFailed = true
    }
  })
test.after = Object.assign(addAfter, { each: wrapHook(after.each, 'after.each') })
process.on('exit', () => {
  if (afterHooks.haveFailed) process.exitCode ||= 1
})

/** Reports what keeps this process alive to the runner, which is about to end it. */
function openHandles(): string {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): object[] }
  const described = handles().map((handle) => {
    const { localPort, remotePort, pid, spawnfile } = handle as Readonly<Record<string, unknown>>
    return `${handle.constructor.name} ${JSON.stringify({ localPort, remotePort, pid, spawnfile })}`
  })
  return [...process.getActiveResourcesInfo(), ...described].join(', ')
}

process.on('SIGUSR2', () => console.error(`open: ${openHandles()}`))
