export const en = {
  invitation: {
    subject: (product: string, who: string | null) => (who === null ? `You have been given a seat for ${product}` : `${who} invites you to ${product}`),
    title: (product: string, who: string | null) => (who === null ? `You have a seat for ${product}` : `${who} invites you to ${product}`),
    text: (product: string, seller: string) => `You have been given a seat for ${product} from ${seller}. Accept it to get your access. It costs you nothing.`,
    until: (moment: string) => `The link works once, until ${moment}. If you do not want the seat, you can ignore this mail.`,
    button: 'Accept the seat',
  },
  revoked: {
    title: {
      withdrawn: (product: string) => `Your seat for ${product} was withdrawn`,
      ended: (product: string) => `Your access to ${product} has ended`,
    },
    text: {
      withdrawn: (product: string, who: string | null) =>
        `${who ?? 'The owner of the team'} has withdrawn your seat. Your access to ${product} has ended. If you think that this is a mistake, ask the owner of your team.`,
      ended: (product: string, who: string | null) =>
        `${who ?? 'Your team'} no longer has ${product}. Your seat and your access have ended with it. If you have questions, ask the owner of your team.`,
    },
    button: 'Open your customer portal',
  },
  requested: {
    subject: (who: string) => `${who} asks for a new invitation`,
    title: 'A new invitation is wanted',
    text: (who: string, product: string) =>
      `${who} was given a seat for ${product}, but the invitation expired before it was accepted. They have asked for a new one. If you do not want to invite them, you do not have to do anything.`,
    button: 'Open your team',
  },
}

export const de: typeof en = {
  invitation: {
    subject: (product, who) => (who === null ? `Sie haben einen Platz für ${product} erhalten` : `${who} lädt Sie zu ${product} ein`),
    title: (product, who) => (who === null ? `Sie haben einen Platz für ${product}` : `${who} lädt Sie zu ${product} ein`),
    text: (product, seller) =>
      `Sie haben einen Platz für ${product} von ${seller} erhalten. Nehmen Sie ihn an, um Ihren Zugang zu bekommen. Für Sie entstehen keine Kosten.`,
    until: (moment) => `Der Link gilt einmal, bis zum ${moment}. Wenn Sie den Platz nicht möchten, können Sie diese E-Mail ignorieren.`,
    button: 'Platz annehmen',
  },
  revoked: {
    title: {
      withdrawn: (product) => `Ihr Platz für ${product} wurde zurückgenommen`,
      ended: (product) => `Ihr Zugang zu ${product} ist beendet`,
    },
    text: {
      withdrawn: (product, who) =>
        `${who ?? 'Der Inhaber des Teams'} hat Ihren Platz zurückgenommen. Ihr Zugang zu ${product} ist beendet. Wenn Sie das für einen Irrtum halten, fragen Sie in Ihrem Team nach.`,
      ended: (product, who) =>
        `${who ?? 'Ihr Team'} hat ${product} nicht mehr. Damit sind auch Ihr Platz und Ihr Zugang beendet. Wenn Sie Fragen haben, wenden Sie sich an Ihr Team.`,
    },
    button: 'Kundenportal öffnen',
  },
  requested: {
    subject: (who) => `${who} bittet um eine neue Einladung`,
    title: 'Eine neue Einladung wird gewünscht',
    text: (who, product) =>
      `${who} hatte einen Platz für ${product} erhalten. Die Einladung ist abgelaufen, bevor sie angenommen wurde, und nun wird um eine neue gebeten. Wenn Sie nicht erneut einladen möchten, müssen Sie nichts tun.`,
    button: 'Team öffnen',
  },
}
