"""Words that say nothing about what a text is about, in eight languages, folded as `words.fold` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH = _set(
    """
    a about above after again against ago all also although always am among an and another any anybody anyone
    anything are aren as at be became because become been before being below between both but by can cannot
    could couldn d did didn do does doesn doing don done down during each either else ever every everybody
    everyone everything few for from further get gets getting give given gives go goes going gone got had hadn
    has hasn have haven having he her here hers herself him himself his how however i if in instead into is isn
    it its itself just ll let m made make makes many may maybe me might mine more most much must mustn my myself
    neither never no nobody none nor not nothing now of off often on once one only onto or other others ought our
    ours ourselves out over own per perhaps please quite rather re really s said same say says shall shan she
    should shouldn since so some somebody someone something such t than that the their theirs them themselves
    then there therefore these they thing things this those though through thus to together too toward towards
    under unless until up upon us used using ve very was wasn we well went were weren what whatever when whenever
    where whether which while who whoever whom whose why will with within without won would wouldn yes yet you
    your yours yourself yourselves
    """
)
GERMAN = _set(
    """
    ab aber alle allem allen aller alles als also am an andere anderen andern anderer anderes auch auf aus bei
    beim bin bis bist da dabei dadurch dafur dagegen daher damit dann daran darauf daraus darf darin daruber
    darum das dass davon dazu dein deine deinem deinen deiner dem den denen denn der deren des deshalb dessen
    dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
    einige einigen einmal er es etwa etwas euch euer eure fur gab gar gegen geht gehabt gewesen gibt hab habe
    haben habt hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist
    ja jede jedem jeden jeder jedes jemand jetzt kann kannst kein keine keinem keinen keiner konnen konnte
    konnten machen macht mal man mehr mein meine meinem meinen meiner mich mir mit muss mussen musste nach nein
    nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so sogar
    soll sollen sollte sondern sonst trotzdem uber um und uns unser unsere unter viel vom von vor wahrend wann
    war ware waren warum was weg wegen weil welche welchem welchen welcher welches wem wen wenn wer werde werden
    wessen wie wieder will wir wird wirst wo wobei wohin wollen wollte worden wozu wurde wurden zu zum zur zwar
    zwischen
    """
)
FRENCH = _set(
    """
    a afin ai ainsi alors apres as au aucun aucune aussi autre autres aux avait avant avec avez avoir avons ayant
    beaucoup bien c ca car ce ceci cela celle celles celui cependant ces cet cette ceux chaque chez comme comment
    d dans de deja depuis des dont donc du elle elles en encore entre es est et etaient etait etant ete etes etre
    eu eux fait faire fais fois font furent fut il ils j je jusque l la laquelle le lequel les lesquels leur leurs
    lors lorsque lui m ma mais me meme memes mes moi moins mon n ne ni non nos notre nous on ont ou par parce
    parmi pas pendant peu peut peuvent peux plus plusieurs pour pourquoi pouvez pouvoir puis qu quand que quel
    quelle quelles quels quelque quelques qui quoi s sa sans se sera seront ses si soit son sont sous suis sur
    t ta te tes toi ton tous tout toute toutes tres tu un une vers voici voila vos votre vous y
    """
)
SPANISH = _set(
    """
    a al algo alguien algun alguna algunas algunos ante antes aquel aquella aquello asi aun aunque bajo bien cada
    casi como con contra cosa cosas cual cuales cualquier cuando cuanto cuantos de del desde donde dos durante e
    el ella ellas ellos en entonces entre era eran eras eres es esa esas ese eso esos esta estaba estaban estado
    estamos estan estar estas este esto estos estoy fue fueron fui ha habia habian hace hacer hacia han has hasta
    hay he hemos hizo la las le les lo los mas me mi mia mis mismo mucho muchos muy nada ni no nos nosotros
    nuestra nuestro nunca o os otra otras otro otros para pero poco por porque pues que quien quienes se sea ser
    si sido siempre sin sino sobre sois solo somos son soy su sus suyo tal tambien tampoco tan tanto te tener
    tengo ti tiene tienen todo toda todas todos tu tus un una unas uno unos vosotros y ya yo
    """
)
PORTUGUESE = _set(
    """
    a agora ainda algo alguem algum alguma alguns ao aos apenas apos aquela aquele aquilo as assim ate cada com
    como contra contudo da das de dela dele deles depois desde dessa desse desta deste disso do dos durante e ela
    elas ele eles em enquanto entao entre era eram essa essas esse esses esta estao estar estas estava estavam
    este estes estou eu fazer faz fez foi for foram ha isso isto ja la lhe lhes lo mais mas me mesmo meu meus
    minha minhas muito muitos na nao nas nem nenhum nessa nesse nesta neste no nos nossa nosso num numa nunca o
    onde os ou outra outras outro outros para pela pelas pelo pelos pode podem por porem porque pouco quais qual
    quando quanto quantos que quem se sem sempre ser sera seu seus si sido so sobre somos sou sua suas tal
    tambem tanto te tem temos tenho ter teu teve tinha tive toda todas todo todos tu tua tudo um uma umas uns
    vai voce voces vos
    """
)
ITALIAN = _set(
    """
    a abbiamo ad agli ai al alcuni alla alle allo allora altra altre altri altro anche ancora avere aveva avevano
    bene c che chi ci cio cioe come con contro cosa cose cosi cui d da dagli dai dal dalla dalle dallo de degli
    dei del dell della delle dello dentro di dopo dove due durante e ecco ed era erano essere fa fare fatto fino
    fra fu gia gli ha hai hanno ho i il in invece io l la le lei li lo loro lui ma me meno mentre mi mia mie miei
    mio molto ne nei nel nella nelle nello no noi non nostra nostro nulla o od ogni oppure perche pero piu po
    poco poi puo qua quale quali qualche qualcosa qualcuno quando quanti quanto quasi quella quelle quelli quello
    questa queste questi questo qui quindi se sei sempre senza si sia siamo siete sono sopra sotto sta stata
    state stati stato su sua sue sui sul sulla suo suoi tale tanto te ti tra tu tua tuo tuoi tutta tutte tutti
    tutto un una uno vi voi vostra vostro
    """
)
DUTCH = _set(
    """
    aan al alle alles als altijd andere ben bent bij daar dan dat de deze die dit doch doen door dus een eens en
    er ge geen geweest gij haar had hadden heb hebben hebt heeft hem het hier hij hoe hun iemand iets ik in is ja
    je jij jou jouw jullie kan kon kunnen maar me meer men met mij mijn moet moeten na naar niet niets nog nu of
    om omdat onder ons onze ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom wanneer
    want waren was wat we weer welk welke werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo
    zonder zou zouden
    """
)
RUSSIAN = _set(
    """
    а без более больше будет будто бы был была были было быть в вам вас ваш вдруг ведь во вот впрочем все всегда
    всего всех всю вы где да даже два для до другой его ее ей ему если есть еще ж же за зачем здесь и из или им
    иногда их к как какая какие какой какую когда конечно которая которое которые который кто куда ли лучше между
    меня мне много может можно мои мой моя мы на над надо наконец нас наш не него нее ней нельзя нет ни нибудь
    никогда ним них ничего но ну о об один он она они оно опять от откуда очень перед по под после потом потому
    почему почти при про раз разве с сам свое свой свою себе себя сейчас со совсем так такое такой там тебе тебя
    тем теперь то тогда того тоже только том тот три тут ты у уж уже хоть хорошо хотя чего чей чем через что чтоб
    чтобы чуть эта эти это этого этой этом этот эту я
    """
)
STOP_WORDS = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "pt": PORTUGUESE,
    "it": ITALIAN,
    "nl": DUTCH,
    "ru": RUSSIAN,
}
#: Stop words of another language that are English words with a meaning: they do not tell the language.
_AMBIGUOUS = _set(
    """
    bin car come dare die door dove era fait fare ha hat hay het man met mine mon net on pas pour sale sea sin son
    state sue tale ten todo ton tot van want war wet wie
    """
)


def stop_words(words: Iterable[str]) -> frozenset[str]:
    """The stop words of the language that folded `words` are in; English unless they say otherwise.

    >>> "die" in stop_words(["die", "hard", "hat"]), "die" in stop_words("wann war die migration".split())
    (False, True)
    """
    spoken = set(words)
    best = max(STOP_WORDS, key=lambda language: len(spoken & STOP_WORDS[language]))
    found = spoken & STOP_WORDS[best]
    telling = found - _AMBIGUOUS - ENGLISH
    enough = len(found) >= 2 or (not spoken & ENGLISH and any(len(word) >= 4 for word in telling))
    return STOP_WORDS[best] if telling and enough else ENGLISH
