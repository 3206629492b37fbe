// Pages whose titles have the words come first, answers and questions before the reference.
const asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).filter((word) => word.length > 2);
var Scorer = {
  score: ([page, title, , , score]) => {
    const named = asked.filter((word) => title.toLowerCase().includes(word)).length;
    const answers = /^(answers\/plot|questions)/.test(page) ? 4 : 0;
    return score + answers + (named === asked.length && named ? 30 : 8 * named);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
