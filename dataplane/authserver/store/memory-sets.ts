import {
  type HeldBy,
  holderIn,
  type Kind,
  type Member,
  MOST_MEMBERS,
  type RecordStore,
  secondsOf,
  type Term,
} from './record-store.ts'

/** How texts are kept: at once, so that nothing comes in between. */
interface Texts {
  get(kind: Kind, name: string): string | undefined
  set(kind: Kind, name: string, text: string, term: Term): void
  delete(kind: Kind, name: string): void
  now(): number
}

/** Sets among the texts of a memory, which count as these do. */
export function memorySets({ now, ...texts }: Texts): Pick<RecordStore, 'addMember' | 'members' | 'removeMember'> {
  const membersOf = (kind: Kind, name: string) => readMembers(texts.get(kind, name), now())

  function write(kind: Kind, name: string, members: readonly Member[], by?: HeldBy): void {
    const [longest] = members
    if (longest === undefined) texts.delete(kind, name)
    else texts.set(kind, name, textOfMembers(members), { ttlS: Math.ceil((longest.endsAt - now()) / 1000), by })
  }

  return {
    async addMember(kind, name, member, term) {
      const added = { member, endsAt: Math.ceil(now() / 1000 + secondsOf(term)) * 1000 }
      write(kind, name, withMember(membersOf(kind, name), added), holderIn(term))
    },
    members: async (kind, name) => membersOf(kind, name),
    async removeMember(kind, name, member) {
      const left = membersOf(kind, name).filter((one) => one.member !== member)
      write(kind, name, left)
    },
  }
}

/** A set as a text, with its ends in whole seconds: names have neither `:` nor `,`. */
function textOfMembers(members: readonly Member[]): string {
  return members.map(({ member, endsAt }) => `${member}:${(endsAt / 1000).toString(36)}`).join(',')
}

/** The members that have not ended, first those that stay longest. */
function readMembers(text: string | undefined, now: number): readonly Member[] {
  if (text === undefined || text === '') return []
  const members = text.split(',').map((part) => {
    const [member = '', end = ''] = part.split(':')
    return { member, endsAt: Number.parseInt(end, 36) * 1000 }
  })
  return members.filter(({ endsAt }) => endsAt > now)
}

/** The set with one more, or with one that stays for another time; before others that end in the same second. */
function withMember(members: readonly Member[], added: Member): readonly Member[] {
  const others = members.filter(({ member }) => member !== added.member)
  return [added, ...others].sort((a, b) => b.endsAt - a.endsAt).slice(0, MOST_MEMBERS)
}
