import { existsSync, readFileSync } from 'node:fs'
import type { Need } from './need.ts'

/** As far as set-up asks. */
export interface Machine {
  readonly isRoot: boolean
  readonly packages: 'apt' | 'brew' | undefined
  readonly isUbuntu?: boolean
}

/** This machine. Debian, Ubuntu and what derives from them have /etc/debian_version. */
export const thisMachine = (): Machine => ({
  isRoot: process.getuid?.() === 0,
  packages: existsSync('/etc/debian_version') ? 'apt' : process.platform === 'darwin' ? 'brew' : undefined,
  isUbuntu: existsSync('/etc/os-release') && /^ID=ubuntu$/m.test(readFileSync('/etc/os-release', 'utf8')),
})

/** What set-up has to do: what packages bring, what is made here, what nobody but the user can bring. */
export interface Plan {
  readonly installed: readonly Need[]
  readonly made: readonly Need[]
  readonly byHand: readonly Need[]
}

function packagesOf(need: Need, { packages, isUbuntu }: Machine): readonly string[] {
  if (packages === 'brew') return need.brew ?? need.debian
  return packages === 'apt' && !(isUbuntu && need.notOnUbuntu) ? need.debian : []
}

const sorted = (names: readonly string[]) => [...new Set(names)].sort()

/** Names of the packages of a plan. */
export const packageNames = (plan: Plan, machine: Machine): string[] =>
  sorted(plan.installed.flatMap((need) => packagesOf(need, machine)))

/** What is missing of these needs, and how it comes here. */
export function planFor(needs: readonly Need[], machine: Machine): Plan {
  const missing = needs.filter((need) => !need.present())
  const made = missing.filter((need) => need.make)
  const tools = [...new Set([...missing.filter((need) => !need.make), ...made.flatMap((need) => need.by ?? [])])]
  const lacking = tools.filter((need) => !need.present())
  const brought = (need: Need) => packagesOf(need, machine).length > 0
  return { installed: lacking.filter(brought), made, byHand: lacking.filter((need) => !brought(need)) }
}

const installsItself = ({ isRoot, packages }: Machine) => isRoot && packages === 'apt'

/** What the user has to bring before a need can come here; empty where set-up does it all, or where it is there. */
export function lackingByHand(need: Need, machine: Machine): readonly Need[] {
  const { installed, byHand } = planFor([need], machine)
  return installsItself(machine) ? byHand : [...installed, ...byHand]
}

/** The command that brings one thing, or where to get it. */
export function remedy(need: Need, machine: Machine): string {
  const packages = packagesOf(need, machine)
  return packages.length > 0 ? installation(packages, machine) : (need.hint ?? 'put it into a folder of the PATH')
}

const MINUTES_OF_PACKAGES = 1

/** Says what set-up is about to do and how long it takes. */
export function announcement(plan: Plan, machine: Machine): string {
  const packages = packageNames(plan, machine)
  const minutes =
    (packages.length > 0 ? MINUTES_OF_PACKAGES : 0) + plan.made.reduce((sum, one) => sum + (one.minutes ?? 0), 0)
  const about = minutes < 1 ? 'less than a minute' : `about ${Math.ceil(minutes)} minute${minutes > 1 ? 's' : ''}`
  return [
    `Set-up, once on this machine, ${about} on two cores:`,
    ...(packages.length > 0 ? [`  Debian packages: ${packages.join(' ')}`] : []),
    ...plan.made.map(({ name }) => `  ${name}`),
  ].join('\n')
}

/** Says what to do where set-up can't go on by itself; undefined where it can. */
export function refusal(plan: Plan, machine: Machine): string | undefined {
  const packages = packageNames(plan, machine)
  const lines: string[] = []
  if (packages.length > 0 && !installsItself(machine))
    lines.push('Install what the tests need:', `  ${installation(packages, machine)}`)
  if (plan.byHand.length > 0) {
    lines.push(machine.packages ? 'What no package brings:' : 'Install what the tests need:')
    for (const { name, hint } of plan.byHand) lines.push(`  ${name}${hint ? ` (${hint})` : ''}`)
  }
  if (lines.length === 0) return undefined
  return [...lines, 'Then run this again: it does the rest by itself.'].join('\n')
}

const installation = (packages: readonly string[], machine: Machine) =>
  machine.packages === 'brew'
    ? `brew install ${packages.join(' ')}`
    : `sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends ${packages.join(' ')}'`
