import { existsSync, readFileSync } from 'node:fs'
import type { Need } from './need.ts'

/** The properties of a machine on which set-up depends. */
export interface Machine {
  readonly isRoot: boolean
  readonly packages: 'apt' | 'brew' | undefined
  readonly isUbuntu?: boolean
}

/** This machine. Debian, Ubuntu and their derivatives have /etc/debian_version. */
export const thisMachine = (): Machine => ({
  isRoot: process.getuid?.() === 0,
  packages: existsSync('/etc/debian_version') ? 'apt' : process.platform === 'darwin' ? 'brew' : undefined,
  isUbuntu: existsSync('/etc/os-release') && /^ID=ubuntu$/m.test(readFileSync('/etc/os-release', 'utf8')),
})

/** The steps of set-up: packages to install, things to make, and things that only the user can install. */
export interface Plan {
  readonly installed: readonly Need[]
  readonly made: readonly Need[]
  readonly byHand: readonly Need[]
}

function listPackages(need: Need, { packages, isUbuntu }: Machine): readonly string[] {
  if (packages === 'brew') return need.brew ?? need.debian
  return packages === 'apt' && !(isUbuntu && need.notOnUbuntu) ? need.debian : []
}

const sortUnique = (names: readonly string[]) => [...new Set(names)].sort()

/** Returns the names of the packages of a plan. */
export const packageNames = (plan: Plan, machine: Machine): string[] =>
  sortUnique(plan.installed.flatMap((need) => listPackages(need, machine)))

/** Returns which of these needs are missing, and how each is provided. */
export function planFor(needs: readonly Need[], machine: Machine): Plan {
  const missing = needs.filter((need) => !need.present())
  const created = missing.filter((need) => need.make)
  const tools = [...new Set([...missing.filter((need) => !need.make), ...created.flatMap((need) => need.by ?? [])])]
  const lacking = tools.filter((need) => !need.present())
  const isInstallable = (need: Need) => listPackages(need, machine).length > 0
  return {
    installed: lacking.filter(isInstallable),
    made: created.toSorted((one, other) => waitOf(one, created) - waitOf(other, created)),
    byHand: lacking.filter((need) => !isInstallable(need)),
  }
}

/** Returns the minutes after which a need could be there if nothing else were made: the quick ones are made first. */
const waitOf = ({ minutes = 0, after }: Need, made: readonly Need[]): number =>
  minutes + (after !== undefined && made.some(({ name }) => name === after.name) ? (after.minutes ?? 0) : 0)

const installsItself = ({ isRoot, packages }: Machine) => isRoot && packages === 'apt'

/** Returns what the user has to install before a need can be provided; empty if there is nothing. */
export function lackingByHand(need: Need, machine: Machine): readonly Need[] {
  const { installed, byHand } = planFor([need], machine)
  return installsItself(machine) ? byHand : [...installed, ...byHand]
}

/** Returns the command that installs one thing, or where to get it. */
export function remedy(need: Need, machine: Machine): string {
  const packages = listPackages(need, machine)
  return packages.length > 0 ? installation(packages, machine) : (need.hint ?? 'put it into a folder of the PATH')
}

const MINUTES_OF_PACKAGES = 1

/** Returns a description of the plan with its duration. */
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

/** Returns instructions for the user if set-up can't continue by itself, or undefined. */
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
